package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
)

// watch reads all sockets in one thread: Go's own poller costs a goroutine switch and a second read for
// every message.
func watch(connections []*connection, counts *counters) error {
	poll, err := syscall.EpollCreate1(0)
	if err != nil {
		return err
	}
	byFd := map[int32]*connection{}
	for _, one := range connections {
		if err := one.take(nil, counts, one.send); err != nil { // what came with the subscribe reply
			return err
		}
		fd, err := own(one.socket)
		if err != nil {
			return err
		}
		byFd[int32(fd)] = one
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
			return err
		}
	}
	go read(poll, byFd, counts)
	return nil
}

func (c *connection) send(frame []byte) error {
	_, err := c.socket.Write(frame)
	return err
}

// own takes a socket away from Go's poller.
func own(socket net.Conn) (int, error) {
	raw, err := socket.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	copied, failed := 0, error(nil)
	if err := raw.Control(func(fd uintptr) { copied, failed = syscall.Dup(int(fd)) }); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return copied, socket.Close()
}

func read(poll int, byFd map[int32]*connection, counts *counters) {
	runtime.LockOSThread()
	events := make([]syscall.EpollEvent, 256)
	buffer := make([]byte, 64<<10)
	for {
		ready, err := syscall.EpollWait(poll, events, -1)
		if err != nil && err != syscall.EINTR {
			fmt.Fprintln(os.Stderr, "epoll:", err)
			os.Exit(1)
		}
		for _, event := range events[:max(ready, 0)] {
			fd := int(event.Fd)
			n, err := syscall.Read(fd, buffer)
			if err == syscall.EAGAIN || err == syscall.EINTR {
				continue
			}
			if err == nil && n > 0 {
				answer := func(frame []byte) error {
					_, err := syscall.Write(fd, frame)
					return err
				}
				err = byFd[event.Fd].take(buffer[:n], counts, answer)
			}
			if err != nil || n <= 0 {
				counts.lost.Add(1)
				_ = syscall.Close(fd) // which also takes it out of the poll
			}
		}
	}
}
