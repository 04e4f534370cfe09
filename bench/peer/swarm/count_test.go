package main

import (
	"bytes"
	"testing"
)

func text(payload string) []byte {
	masked := maskedText([]byte(payload))
	head := len(masked) - len(payload) - 4
	out := append([]byte(nil), masked[:head]...)
	out[1] &= 0x7f
	return append(out, payload...)
}

func TestCountsWhateverThePieces(t *testing.T) {
	one := `{"push":{"channel":"c","pub":{"data":{},"offset":1}}}`
	long := `{"push":{"channel":"c","pub":{"data":"` + string(bytes.Repeat([]byte("x"), 300)) + `"}}}`
	stream := bytes.Join([][]byte{text(one), text("{}"), text(one + "\n" + one), text(long)}, nil)
	for size := 1; size <= len(stream); size++ {
		counts, pongs := &counters{}, 0
		c := &connection{}
		for rest := stream; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			answer := func([]byte) error { pongs++; return nil }
			if err := c.take(rest[:min(size, len(rest))], counts, answer); err != nil {
				t.Fatal(err)
			}
		}
		if counts.publications.Load() != 4 || counts.frames.Load() != 3 || pongs != 1 || counts.lost.Load() != 0 {
			t.Fatalf("in pieces of %d: %s, %d pongs", size, counts.json(), pongs)
		}
	}
}

func TestAPingIsAnsweredWhateverComesWithIt(t *testing.T) {
	one := `{"push":{"channel":"c","pub":{"data":{},"offset":1}}}`
	for _, payload := range []string{"{}", one + "\n{}", "{}\n" + one, one + "\n{}\n" + one} {
		counts, pongs := &counters{}, 0
		answer := func([]byte) error { pongs++; return nil }
		if err := (&connection{}).take(text(payload), counts, answer); err != nil {
			t.Fatal(err)
		}
		if pongs != 1 || counts.lost.Load() != 0 {
			t.Fatalf("%q: %s, %d pongs", payload, counts.json(), pongs)
		}
	}
}

func TestAnEndIsCounted(t *testing.T) {
	c, counts := &connection{}, &counters{}
	if err := c.take(text(`{"push":{"channel":"c","unsubscribe":{"code":2500}}}`), counts, nil); err != nil {
		t.Fatal(err)
	}
	if counts.lost.Load() != 1 {
		t.Fatal(counts.json())
	}
	if err := c.take([]byte{0x88, 0}, counts, nil); err == nil {
		t.Fatal("a close frame is an end")
	}
}
