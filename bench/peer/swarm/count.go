package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

var (
	pub  = []byte(`"pub":{`)
	pong = maskedText([]byte("{}"))

	ping       = []byte("{}")
	pingAtEnd  = []byte("\n{}")
	pingWithin = []byte("\n{}\n")
)

// counters is what all connections together received.
type counters struct {
	publications atomic.Int64
	frames       atomic.Int64 // those with publications
	bytes        atomic.Int64
	lost         atomic.Int64 // connections or subscriptions that the server ended
}

func (c *counters) json() string {
	return fmt.Sprintf(`{"publications":%d,"frames":%d,"bytes":%d,"lost":%d}`,
		c.publications.Load(), c.frames.Load(), c.bytes.Load(), c.lost.Load())
}

// connection is a socket and what was read of a frame that is not whole yet.
type connection struct {
	socket net.Conn
	rest   []byte
}

// take counts the frames in what was just read, and calls answer for each ping.
func (c *connection) take(read []byte, counts *counters, answer func([]byte) error) error {
	counts.bytes.Add(int64(len(read)))
	data := read
	if len(c.rest) > 0 {
		c.rest = append(c.rest, read...)
		data = c.rest
	}
	for {
		payload, size, err := frame(data)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		data = data[size:]
		found, pinged := bytes.Count(payload, pub), hasPing(payload)
		if pinged {
			if err := answer(pong); err != nil {
				return err
			}
		}
		if found > 0 {
			counts.publications.Add(int64(found))
			counts.frames.Add(1)
		} else if !pinged {
			counts.lost.Add(1) // nothing else comes after the subscribe reply but an end
		}
	}
	c.rest = append(c.rest[:0], data...) // data may lie in rest itself: append moves it down
	return nil
}

// hasPing says whether one of a frame's lines is a ping: a server may send it together with publications,
// and closes a connection that does not answer.
func hasPing(payload []byte) bool {
	if bytes.HasPrefix(payload, ping) && (len(payload) == len(ping) || payload[len(ping)] == '\n') {
		return true
	}
	return bytes.HasSuffix(payload, pingAtEnd) || bytes.Contains(payload, pingWithin)
}

// frame finds the first frame; size is 0 when it is not whole.
func frame(data []byte) (payload []byte, size int, err error) {
	if len(data) < 2 {
		return nil, 0, nil
	}
	if data[0]&0x0f == 8 {
		return nil, 0, errors.New("closed by the server")
	}
	head, length := 2, int(data[1]&0x7f)
	switch length {
	case 126:
		if len(data) < 4 {
			return nil, 0, nil
		}
		head, length = 4, int(binary.BigEndian.Uint16(data[2:]))
	case 127:
		if len(data) < 10 {
			return nil, 0, nil
		}
		head, length = 10, int(binary.BigEndian.Uint64(data[2:]))
	}
	if len(data) < head+length {
		return nil, 0, nil
	}
	return data[head : head+length], head + length, nil
}
