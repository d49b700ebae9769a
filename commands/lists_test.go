package commands

import (
	"fmt"
	"strings"
	"testing"
)

func TestListsLikeRedis(t *testing.T) {
	sameAsRedis(t, "lists.txt", listCommands(), keyCommands(), stringCommands())
}

// TestSearchInChunks looks for elements on either side of where LPOS reads on.
func TestSearchInChunks(t *testing.T) {
	h := newHandlers(t, listCommands())
	const length = 5*firstSearchChunk + 7
	for i := range length {
		h.do(t, 2, splitLine(t, fmt.Sprintf("RPUSH l %d", i%firstSearchChunk)))
	}
	var forth, back strings.Builder
	for i := 5; i < length; i += firstSearchChunk {
		fmt.Fprintf(&forth, ":%d\r\n", i)
	}
	for i := length - 2; i >= 0; i -= firstSearchChunk {
		fmt.Fprintf(&back, ":%d\r\n", i)
	}
	for _, test := range []struct{ line, want string }{
		{"LPOS l 5 COUNT 0", "*6\r\n" + forth.String()},
		{"LPOS l 5 RANK -1 COUNT 0", "*6\r\n" + back.String()},
	} {
		if got := h.do(t, 2, splitLine(t, test.line)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.line, got, test.want)
		}
	}
}
