// The peer: the centrifuge library as it comes, with history and recovery on.
//
// Each line on standard input is published to one channel, so that publishing costs it as little as
// possible. It prints one JSON line when it listens, and ends with its standard input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/centrifugal/centrifuge"
)

const (
	path        = "/connection/websocket"
	historySize = 100_000 // what distributary keeps of a view by default
	historyTTL  = 10 * time.Minute
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: server CHANNEL")
	}
	if err := serve(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func serve(channel string) error {
	node, err := centrifuge.New(centrifuge.Config{})
	if err != nil {
		return err
	}
	node.OnConnecting(func(context.Context, centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		return centrifuge.ConnectReply{Credentials: &centrifuge.Credentials{}}, nil
	})
	node.OnConnect(func(client *centrifuge.Client) {
		client.OnSubscribe(func(_ centrifuge.SubscribeEvent, answer centrifuge.SubscribeCallback) {
			options := centrifuge.SubscribeOptions{EnableRecovery: true, EnablePositioning: true}
			answer(centrifuge.SubscribeReply{Options: options}, nil)
		})
	})
	if err := node.Run(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(path, centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{}))
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, mux) }()
	go func() { failed <- publish(node, channel) }()
	fmt.Printf("{\"ready\":true,\"url\":\"ws://%s%s\"}\n", listener.Addr(), path)
	return <-failed
}

func publish(node *centrifuge.Node, channel string) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		data := append([]byte(nil), lines.Bytes()...)
		if _, err := node.Publish(channel, data, centrifuge.WithHistory(historySize, historyTTL)); err != nil {
			return err
		}
	}
	return lines.Err()
}
