package queue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSharesCoverSlots wants the shares of every number of consumers to have each slot once, in order.
func TestSharesCoverSlots(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for digits, every := range map[int]int64{1: 1, 2: 1, 3: 13, 4: 997} {
		slots := int64(1) << (4 * digits)
		numbers := []int64{2, 3, 7, slots - 1, slots}
		for n := int64(1); n <= slots; n += 1 + rnd.Int64N(every) {
			numbers = append(numbers, n)
		}
		for _, n := range numbers {
			next, least, most := int64(0), slots, int64(0)
			for i := range n {
				r, err := (&Slots{Share: i, Of: n}).of(digits)
				if err != nil {
					t.Fatal(err)
				}
				if int64(r.From) != next || int64(r.From) != i*slots/n {
					t.Fatalf("share %d of %d begins at %d of %d slots, want %d", i, n, r.From, slots, next)
				}
				next = int64(r.To) + 1
				width := next - int64(r.From)
				least, most = min(least, width), max(most, width)
			}
			if next != slots || most-least > 1 {
				t.Fatalf("%d shares end at %d of %d slots, with %d to %d slots each", n, next, slots, least, most)
			}
		}
	}
}

func TestSlotsAreValidated(t *testing.T) {
	for _, test := range []struct {
		slots  Slots
		digits int
		want   string // a range, or what the error says
	}{
		{Slots{Share: 0, Of: 1}, 4, "{0 65535}"},
		{Slots{Share: 2, Of: 3}, 1, "{10 15}"},
		{Slots{Share: 16, Of: 16}, 1, "with 16 slots there can be 1 to 16 shares, which count from 0"},
		{Slots{Share: -1, Of: 16}, 1, "1 to 16 shares"},
		{Slots{Share: 0, Of: 257}, 2, "with 256 slots there can be 1 to 256"},
		{Slots{From: []byte("00"), To: []byte("3f")}, 2, "{0 63}"},
		{Slots{From: []byte("A"), To: []byte("f")}, 1, "{10 15}"},
		{Slots{From: []byte("00"), To: []byte("3f")}, 3, "its slots are 000-fff, in 3 hexadecimal digits, the lower one first"},
		{Slots{From: []byte("3f"), To: []byte("00")}, 2, "its slots are 00-ff"},
		{Slots{From: []byte("0"), To: []byte("fff")}, 2, "its slots are 00-ff"},
		{Slots{From: []byte("0x"), To: []byte("ff")}, 2, "its slots are 00-ff"},
		{Slots{From: []byte{}, To: []byte{}}, 2, "its slots are 00-ff"},
	} {
		r, err := test.slots.of(test.digits)
		if got := fmt.Sprint(r, err); !strings.Contains(got, test.want) {
			t.Errorf("%v of %d digits: %s, want %s", &test.slots, test.digits, got, test.want)
		}
	}
}

// TestWantedSlots: who waits for a share is told of every task in it, also when the number of digits changes meanwhile.
func TestWantedSlots(t *testing.T) {
	for _, s := range []Slots{{Share: 0, Of: 1}, {Share: 4, Of: 7}, {Share: 299, Of: 300}, {From: []byte("10"), To: []byte("2f")}} {
		wanted := s.Wanted()
		for digits := 1; digits <= 4; digits++ {
			r, err := s.of(digits)
			if err != nil {
				continue
			}
			shift := 4 * (4 - digits)
			if wanted.From > r.From<<shift || wanted.To < r.To<<shift {
				t.Errorf("%v: %v lacks %v of %d digits", &s, wanted, r, digits)
			}
		}
	}
	s := Slots{From: []byte("10"), To: []byte("2f")}
	if w := s.Wanted(); w.From != 0x1000 || w.To != 0x2fff {
		t.Errorf("%v waits for %v", &s, w)
	}
}
