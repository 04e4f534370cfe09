package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"time"
)

const dialLimit = 30 * time.Second

// dial opens a WebSocket, speaks the Centrifuge protocol's JSON, and returns once it is subscribed.
func dial(address, channel string) (*connection, error) {
	where, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	socket, err := net.DialTimeout("tcp", where.Host, dialLimit)
	if err != nil {
		return nil, err
	}
	if err := socket.SetDeadline(time.Now().Add(dialLimit)); err != nil {
		return nil, err
	}
	one := &connection{socket: socket}
	if err := one.upgrade(where); err != nil {
		return nil, err
	}
	if err := one.subscribe(channel); err != nil {
		return nil, err
	}
	return one, socket.SetDeadline(time.Time{})
}

func (c *connection) upgrade(where *url.URL) error {
	const request = "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	if _, err := fmt.Fprintf(c.socket, request, where.RequestURI(), where.Host); err != nil {
		return err
	}
	for {
		if end := bytes.Index(c.rest, []byte("\r\n\r\n")); end >= 0 {
			status, _, _ := bytes.Cut(c.rest, []byte("\r\n"))
			if !bytes.HasPrefix(status, []byte("HTTP/1.1 101")) {
				return fmt.Errorf("refused: %s", status)
			}
			c.rest = c.rest[end+4:]
			return nil
		}
		if err := c.more(); err != nil {
			return err
		}
	}
}

func (c *connection) subscribe(channel string) error {
	name, err := json.Marshal(channel)
	if err != nil {
		return err
	}
	commands := fmt.Sprintf("{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":%s}}", name)
	if _, err := c.socket.Write(maskedText([]byte(commands))); err != nil {
		return err
	}
	for {
		payload, size, err := frame(c.rest)
		if err != nil {
			return err
		}
		if size == 0 {
			if err := c.more(); err != nil {
				return err
			}
			continue
		}
		for _, line := range bytes.Split(payload, []byte("\n")) {
			var reply struct {
				ID    int             `json:"id"`
				Error json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(line, &reply); err != nil {
				return err
			}
			if reply.Error != nil {
				return fmt.Errorf("refused: %s", reply.Error)
			}
			if reply.ID == 2 {
				c.rest = c.rest[size:]
				return nil
			}
		}
		c.rest = c.rest[size:]
	}
}

func (c *connection) more() error {
	var some [4096]byte
	n, err := c.socket.Read(some[:])
	c.rest = append(c.rest, some[:n]...)
	return err
}

// maskedText is a text frame as clients must send it. A mask of zeros leaves the payload as it is.
func maskedText(payload []byte) []byte {
	out := []byte{0x81}
	if len(payload) < 126 {
		out = append(out, 0x80|byte(len(payload)))
	} else {
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(len(payload)))
	}
	return append(append(out, 0, 0, 0, 0), payload...)
}
