package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"codeq/internal/peer"
)

const (
	handovers      = 20000 // of all pairs in a run
	handoverTarget = 0.9   // the part of Redis' speed that is to be reached
)

// handover measures how long it takes from sending a push until the worker that is blocked in BLPOP on the list has its
// element. Each pair of a worker and a pusher has a list; a pusher pushes when its worker is blocked again.
func handover(ctx context.Context, s settings, servers []*peer.Server) error {
	n := s.count(handovers)
	fmt.Printf("%d elements handed over to workers that are blocked in BLPOP, from the push's sending to the worker's receipt;\n"+
		"medians of %d runs. The ratio is that of the medians.\n\n| pairs |", n, s.repeat)
	for _, server := range servers {
		fmt.Printf(" %s median | p99 |", server.Kind())
	}
	fmt.Print(" ratio | target | |\n|---|")
	for range servers {
		fmt.Print("---|---|")
	}
	fmt.Println("---|---|---|")
	for _, pairs := range []int{1, 10, 50} {
		medians, slowest := make([][]float64, len(servers)), make([][]float64, len(servers))
		for range s.repeat {
			for i, server := range servers {
				took, err := handOver(ctx, server, pairs, n/pairs)
				if err != nil {
					return fmt.Errorf("%s: %w", server.Kind(), err)
				}
				slices.Sort(took)
				medians[i] = append(medians[i], median(took))
				slowest[i] = append(slowest[i], took[len(took)*99/100])
			}
		}
		fmt.Printf("| %d |", pairs)
		speed := map[peer.Kind]float64{}
		for i, server := range servers {
			speed[server.Kind()] = 1 / median(medians[i])
			fmt.Printf(" %v | %v |", microseconds(median(medians[i])), microseconds(median(slowest[i])))
		}
		fmt.Println(verdict(speed, target{1, handoverTarget}))
	}
	return nil
}

func microseconds(nanoseconds float64) time.Duration {
	return time.Duration(nanoseconds).Round(time.Microsecond)
}

// handOver lets each pair hand over so many elements and returns what each took, in nanoseconds.
func handOver(ctx context.Context, server *peer.Server, pairs, elements int) ([]float64, error) {
	c, err := server.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Call("FLUSHALL"); err != nil {
		return nil, err
	}
	lists, all := make(chan string, pairs), make(chan []float64, pairs)
	for pair := range pairs {
		lists <- fmt.Sprintf("handover:%d", pair)
	}
	_, err = together(server, pairs, func(pusher *peer.Conn) error {
		took, err := handOverPair(ctx, server, pusher, <-lists, elements)
		all <- took
		return err
	})
	close(all)
	if err != nil {
		return nil, err
	}
	var took []float64
	for some := range all {
		took = append(took, some...)
	}
	return took, nil
}

// handOverPair plays one pair.
func handOverPair(ctx context.Context, server *peer.Server, pusher *peer.Conn, list string, elements int) ([]float64, error) {
	worker, err := server.Dial()
	if err != nil {
		return nil, err
	}
	defer worker.Close()
	asked := make(chan struct{})
	received, failed := make(chan time.Time, 1), make(chan error, 1)
	go func() { // ends when asked is closed, or its connection
		for range asked {
			raw, err := worker.Read()
			at := time.Now()
			if err != nil || raw[0] != '*' {
				failed <- fmt.Errorf("BLPOP: %q, %w", raw, err)
				return
			}
			received <- at
		}
	}()
	defer close(asked)
	took := make([]float64, 0, elements)
	for range elements {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := worker.Send("BLPOP", list, "0"); err != nil {
			return nil, err
		}
		asked <- struct{}{}
		// When this is answered, the server has read the BLPOP, which was there before.
		if _, err := pusher.Call("PING"); err != nil {
			return nil, err
		}
		sent := time.Now()
		if _, err := pusher.Call("LPUSH", list, "element"); err != nil {
			return nil, err
		}
		select {
		case at := <-received:
			took = append(took, float64(at.Sub(sent)))
		case err := <-failed:
			return nil, err
		}
	}
	return took, nil
}
