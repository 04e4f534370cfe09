//go:build !linux

package main

// watch reads each socket in a goroutine of its own.
func watch(connections []*connection, counts *counters) error {
	for _, one := range connections {
		answer := func(frame []byte) error {
			_, err := one.socket.Write(frame)
			return err
		}
		if err := one.take(nil, counts, answer); err != nil { // what came with the subscribe reply
			return err
		}
		go func() {
			buffer := make([]byte, 16<<10)
			for {
				n, err := one.socket.Read(buffer)
				if err == nil {
					err = one.take(buffer[:n], counts, answer)
				}
				if err != nil {
					counts.lost.Add(1)
					_ = one.socket.Close()
					return
				}
			}
		}()
	}
	return nil
}
