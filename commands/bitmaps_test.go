package commands

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestBitmapsLikeRedis(t *testing.T) {
	sameAsRedis(t, "bitmaps.txt", bitmapCommands(), stringCommands(), keyCommands(), listCommands())
}

func TestBitfieldsLikeRedis(t *testing.T) {
	sameAsRedis(t, "bitfield.txt", bitmapCommands(), stringCommands(), keyCommands(), listCommands())
}

// TestBitsOneByOne compares what works in words and bytes with a look at every bit.
func TestBitsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		// Mostly zeros or mostly ones, since these are what is skipped in words.
		val := bytes.Repeat([]byte{byte(-rng.IntN(2))}, 1+rng.IntN(40))
		for i := range val {
			if rng.IntN(12) == 0 {
				val[i] = byte(rng.Uint32())
			}
		}
		first := rng.Int64N(int64(len(val)) * 8)
		last := first + rng.Int64N(int64(len(val))*8-first)
		count, found := int64(0), [2]int64{-1, -1}
		for i := first; i <= last; i++ {
			bit := val[i/8] >> (7 - i%8) & 1
			count += int64(bit)
			if found[bit] < 0 {
				found[bit] = i
			}
		}
		if got := countBits(val, first, last); got != count {
			t.Fatalf("%x, bits %d to %d: counted %d, want %d", val, first, last, got, count)
		}
		for bit, want := range found {
			if got := findBit(val, first, last, byte(bit)); got != want {
				t.Fatalf("%x, bits %d to %d: the first %d is at %d, want %d", val, first, last, bit, got, want)
			}
		}
		width := uint(1 + rng.IntN(64))
		n := rng.Uint64() >> (64 - width)
		val = append(val, make([]byte, 9)...)
		before := append([]byte{}, val...)
		putBits(val, first, width, n)
		if got := bitsAt(val, first, width); got != n {
			t.Fatalf("%d bits at %d: got %x, want %x", width, first, got, n)
		}
		putBits(val, first, width, bitsAt(before, first, width))
		if string(val) != string(before) {
			t.Fatalf("writing %d bits at %d changed others", width, first)
		}
	}
}

// TestIntegerTypes compares the sums of all types with those of numbers without limits.
func TestIntegerTypes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	edges := func(of integerType) int64 {
		lowest, highest := of.limits()
		return [...]int64{lowest, highest, lowest + 1, highest - 1, 0, -1, 1, int64(rng.Uint64())}[rng.IntN(8)]
	}
	for range 100_000 {
		of := integerType{signed: rng.IntN(2) == 0, width: uint(1 + rng.IntN(63))}
		if of.signed {
			of.width += uint(rng.IntN(2))
		}
		lowest, highest := of.limits()
		n, by := of.wrap(uint64(edges(of))), edges(integerType{signed: true, width: uint(1 + rng.IntN(64))})
		sum := new(big.Int).Add(big.NewInt(n), big.NewInt(by))
		fits := sum.Cmp(big.NewInt(lowest)) >= 0 && sum.Cmp(big.NewInt(highest)) <= 0
		saturated := sum
		if !fits && sum.Sign() < 0 {
			saturated = big.NewInt(lowest)
		} else if !fits {
			saturated = big.NewInt(highest)
		}
		if got, ok := of.add(n, by, overflowFail); ok != fits || ok && got != sum.Int64() {
			t.Fatalf("%+v: %d + %d = %d, %v; want %v, %v", of, n, by, got, ok, sum, fits)
		}
		if got, _ := of.add(n, by, overflowSaturate); got != saturated.Int64() {
			t.Fatalf("%+v: %d + %d saturates at %d, want %v", of, n, by, got, saturated)
		}
		modulus := new(big.Int).Lsh(big.NewInt(1), of.width)
		got, _ := of.add(n, by, overflowWrap)
		rest := new(big.Int).Sub(sum, big.NewInt(got))
		if rest.Mod(rest, modulus).Sign() != 0 || got < lowest || got > highest {
			t.Fatalf("%+v: %d + %d wraps to %d", of, n, by, got)
		}
	}
}
