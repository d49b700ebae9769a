package supplier

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func newID(ordinal int, rnd [16]byte) string { return string(AppendID(nil, ordinal, rnd)) }

func drawRandom(t *rapid.T) (rnd [16]byte) {
	copy(rnd[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "random bytes"))
	return rnd
}

var uuidV8 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ordinal, rnd := rapid.IntRange(0, MaxShards-1).Draw(t, "ordinal"), drawRandom(t)
		id := newID(ordinal, rnd)
		if !uuidV8.MatchString(id) {
			t.Fatalf("%q is no UUID of version 8", id)
		}
		if want := fmt.Sprintf("%x-%04x-8", rnd[:4], ordinal); !strings.HasPrefix(id, want) {
			t.Fatalf("%q does not begin with the random prefix and the ordinal, %q", id, want)
		}
		if got, ok := ParseID([]byte(id)); !ok || got != ordinal {
			t.Fatalf("the ordinal of %q is %d, %v; want %d", id, got, ok, ordinal)
		}
	})
}

// TestIDLayout fixes the layout on disk, which every later version must read.
func TestIDLayout(t *testing.T) {
	rnd := [16]byte{0xde, 0xad, 0xbe, 0xef, 4, 5, 0xf6, 7, 0xf8, 9, 10, 11, 12, 13, 14, 15}
	const want = "deadbeef-0003-8607-b809-0a0b0c0d"
	got := newID(3, rnd)
	if !strings.HasPrefix(got, want) {
		t.Errorf("the id is %q, want %q and a check", got, want)
	}
	raw := []byte{0xde, 0xad, 0xbe, 0xef, 0, 3, 0x86, 7, 0xb8, 9, 10, 11, 12, 13}
	if check := fmt.Sprintf("%04x", Hash64(raw)&0xffff); got[len(want):] != check {
		t.Errorf("the check of %q is %q, want %q", got, got[len(want):], check)
	}
}

func TestSetKeyPrefix(t *testing.T) {
	rnd := [16]byte{15: 7}
	SetKeyPrefix(&rnd, []byte("customer-7"))
	if got, want := newID(0, rnd)[:8], fmt.Sprintf("%016x", Hash64([]byte("customer-7")))[:8]; got != want {
		t.Errorf("the id begins with %q, want the leading digits of the hash, %q", got, want)
	}
	if binary.BigEndian.Uint64(rnd[8:]) != 7 {
		t.Error("bytes behind the prefix were changed")
	}
}

// TestTimeOf: ids stand in the order in which they were made, those of one moment a few to a place, and those of servers that told the
// time in steps of 64 ms stand among them. What is no such id has no time. The values are on disk.
func TestTimeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, rnd := rapid.Int64Range(0, 1<<45).Draw(t, "ms"), drawRandom(t)
		i, behind := rapid.IntRange(0, 1<<20).Draw(t, "i"), rnd[13]
		SetTime(&rnd, ms, i)
		at, ok := TimeOf([]byte(newID(1, rnd)))
		if want := uint32(4*ms + int64(i/8)); !ok || at != want {
			t.Fatalf("the time of the id %d of %d ms is %#x, %v; want %#x", i, ms, at, ok, want)
		}
		tick := uint32(ms / 64)
		rnd[10], rnd[11], rnd[12], rnd[13] = byte(tick>>16), byte(tick>>8), byte(tick), behind
		if older, ok := TimeOf([]byte(newID(1, rnd))); !ok || older-(at-uint32(i/8))+255 > 510 {
			t.Fatalf("the time of an id of an older server, %#x, %v, is far from %#x", older, ok, at)
		}
	})
	for id, want := range map[string]uint32{
		"deadbeef-0003-8607-b809-0a0b0c0d1234": 0x0a0b0c0d, "deadbeef-0003-8607-b809-ffffffffzzzz": 0xffffffff,
		"deadbeef-0003-4607-b809-0a0b0c0d1234": 0, "deadbeef-0003-8607-b809-0A0b0c0d1234": 0, "deadbeef-0003-8607-b809-0a0b0c0d123": 0,
		"deadbeef-0003-8607-b809_0a0b0c0d1234": 0, "": 0,
	} {
		if at, ok := TimeOf([]byte(id)); at != want || ok != (want != 0) {
			t.Errorf("the time of %q is %#x, %v; want %#x", id, at, ok, want)
		}
	}
}

// TestHexNumber tries every byte at every place.
func TestHexNumber(t *testing.T) {
	for place := range 8 {
		for c := range 256 {
			text := []byte("09afc5e1")
			text[place] = byte(c)
			want, err := strconv.ParseUint(string(text), 16, 32)
			valid := err == nil && (c < 'A' || c > 'F')
			got, ok := hexNumber(binary.BigEndian.Uint64(text))
			if ok != valid || ok && got != uint32(want) {
				t.Errorf("%q is %#x, %v; want %#x, %v", text, got, ok, want, valid)
			}
		}
	}
}

func TestParseIDRefusesOthers(t *testing.T) {
	id := newID(2, [16]byte{1, 2, 3})
	for _, other := range []string{
		"", "task-1", id[:35], id + "0", strings.ToUpper(id), strings.ReplaceAll(id, "-", "_"),
		strings.Replace(id, "-0002-", "-0003-", 1),
		id[:8] + "0" + id[9:],
		"x" + id[1:],
		id[:19] + "c" + id[20:],
		id[:9] + "-" + id[10:],
		id[:24] + strings.Repeat("-", 12),
		"018f3e2a-5b5c-7d4e-8a3b-1c2d3e4f5a6b", // version 7
		"9b2f3c1e-8a4d-4f6b-9c0e-2d1a7b5e6f30", // version 4
		"2489e9ad-2ee2-8e00-8ec9-32d5f69181c0", // RFC 9562's example of version 8
	} {
		if ordinal, ok := ParseID([]byte(other)); ok {
			t.Errorf("%q is read as an id of shard %d", other, ordinal)
		}
	}
}

// TestForeignIDsRarelyPass draws UUIDs of version 8 that are not ours: one of
// 65,536 may pass the check, so of 200,000 about three do.
func TestForeignIDsRarelyPass(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	passed := 0
	for range 200_000 {
		var raw [16]byte
		binary.BigEndian.PutUint64(raw[:8], rnd.Uint64())
		binary.BigEndian.PutUint64(raw[8:], rnd.Uint64())
		raw[6], raw[8] = 0x80|raw[6]&0x0f, 0x80|raw[8]&0x3f
		id := fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
		if _, ok := ParseID([]byte(id)); ok {
			passed++
		}
	}
	if passed > 15 {
		t.Errorf("%d of 200,000 foreign ids pass the check; about 3 should", passed)
	}
}

func TestSlot(t *testing.T) {
	hashed := func(id string) string { return fmt.Sprintf("%016x", Hash64([]byte(id))) }
	for _, test := range []struct{ id, digits string }{
		{"deadbeef-0003-8607-b809-0a0b0c0d0000", "dead"},
		{"DEAD", "dead"},
		{"-d-e-a-d-beef", "dead"},
		{"12345678901234567890", "1234"},
		{"task-7", hashed("task-7")},
		{"deadbeef-x", hashed("deadbeef-x")},
		{"déad", hashed("déad")},
		{"", hashed("")},
		{"---", hashed("---")},
	} {
		for digits := 1; digits <= 4; digits++ {
			if got := fmt.Sprintf("%0*x", digits, Slot([]byte(test.id), digits)); got != test.digits[:digits] {
				t.Errorf("by %d digits %q is in slot %s, want %s", digits, test.id, got, test.digits[:digits])
			}
		}
	}
	if got := Slot([]byte("7f"), 2); got != 0x7f {
		t.Errorf("7f is in slot %x", got)
	}
	if got, want := fmt.Sprintf("%03x", Slot([]byte("7f"), 3)), hashed("7f")[:3]; got != want {
		t.Errorf("an id with too few digits is in slot %s, want %s", got, want)
	}
}

// TestSlotsAreUniform holds 10,000 ids over 256 slots against the chi-squared test; the seed is fixed, so it cannot flake.
func TestSlotsAreUniform(t *testing.T) {
	const ids, slots = 10_000, 256
	rnd := rand.New(rand.NewPCG(8, 9))
	random := func() (b [16]byte) {
		binary.BigEndian.PutUint64(b[:8], rnd.Uint64())
		binary.BigEndian.PutUint64(b[8:], rnd.Uint64())
		return b
	}
	for name, id := range map[string]func(i int) string{
		"made here": func(int) string { return newID(3, random()) },
		"with a key": func(i int) string {
			b := random()
			SetKeyPrefix(&b, fmt.Appendf(nil, "customer-%d", i))
			return newID(3, b)
		},
		"counted":     func(i int) string { return fmt.Sprintf("task-%d", i) },
		"other texts": func(i int) string { return fmt.Sprintf("job:%d:%x", i, rnd.Uint32()) },
	} {
		counts := make([]int, slots)
		for i := range ids {
			counts[Slot([]byte(id(i)), 2)]++
		}
		chi := 0.0
		for _, n := range counts {
			d := float64(n) - float64(ids)/slots
			chi += d * d * slots / ids
		}
		// With 255 degrees of freedom, one of a thousand fair draws exceeds 330.5.
		if chi > 330.5 {
			t.Errorf("%s: chi-squared is %.1f", name, chi)
		}
	}
}
