// The load generator: many WebSocket connections that subscribe to one channel and count what comes.
//
// It is made to be cheap, since it shares the machine with the server that is measured: no JSON is read
// once a connection is subscribed, and on Linux one thread reads all sockets. It prints one JSON line when
// all are subscribed, one with its counts for each line on standard input, and ends with that.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
)

func main() {
	url := flag.String("url", "", "ws://host:port/path")
	channel := flag.String("channel", "", "what to subscribe to")
	count := flag.Int("connections", 1000, "how many")
	flag.Parse()
	connections, err := dialAll(*url, *channel, *count)
	if err != nil {
		log.Fatal(err)
	}
	counts := &counters{}
	if err := watch(connections, counts); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("{\"ready\":true,\"connections\":%d}\n", len(connections))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(counts.json())
	}
}

// dialAll opens the connections, some at a time, each subscribed when it returns.
func dialAll(url, channel string, count int) ([]*connection, error) {
	const parallel = 32
	connections := make([]*connection, count)
	errs := make(chan error, count)
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	for i := range connections {
		group.Add(1)
		slots <- struct{}{}
		go func() {
			defer group.Done()
			defer func() { <-slots }()
			one, err := dial(url, channel)
			if err != nil {
				errs <- fmt.Errorf("connection %d: %w", i, err)
			}
			connections[i] = one
		}()
	}
	group.Wait()
	close(errs)
	return connections, <-errs
}
