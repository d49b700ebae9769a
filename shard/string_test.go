package shard

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// openStrings opens a store whose strings and chunks have the sizes of a server's.
func openStrings(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	opts := testOptions(fs, 1, clock.NewManual(testStart))
	opts.stringBytes, opts.chunkBits = stringBytes, chunkBits
	opts.CacheBytes, opts.LogSegment, opts.LogMax = 64<<20, 1<<30, 1<<30
	return openTest(t, opts)
}

// withString runs fn on the string at key "k" in a transaction of its own, and returns the bytes that it added to the log and
// the chunks that are cached then.
func withString(t testing.TB, st *Store, tx *Tx, fn func(d DB, s String) error) (logged uint64, cached int) {
	t.Helper()
	tx.Begin(st.All())
	before := tx.Position()
	s, err := tx.DB(0).StringOf([]byte("k"))
	if err == nil {
		err = fn(tx.DB(0), s)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.o.chunked != nil {
		cached = len(s.o.chunked.cached)
	}
	pos := tx.End()
	if err := st.Wait(pos); err != nil {
		t.Fatal(err)
	}
	return pos - before, cached
}

// TestPartsOfStringsCostParts changes and reads parts of a string of 8 MiB, in a store that has just been opened. None of that
// logs, or looks at, more than the chunks it is about.
func TestPartsOfStringsCostParts(t *testing.T) {
	const size = 8 << 20
	fs := vfs.NewMem()
	st := openStrings(t, fs)
	val := bytes.Repeat([]byte("abcdefgh"), size/8)
	withString(t, st, st.NewTx(), func(d DB, _ String) error { return d.Set([]byte("k"), val, 0) })
	tests := []struct {
		name   string
		chunks int
		do     func(d DB, s String) error
	}{
		{"one byte", 1, func(_ DB, s String) error { return s.Write(size/2, []byte("x")) }},
		{"the same byte often", 1, func(_ DB, s String) error {
			for range 1000 {
				if err := s.Write(size/2, []byte("y")); err != nil {
					return err
				}
			}
			return nil
		}},
		{"two chunks", 2, func(_ DB, s String) error { return s.Write(3<<chunkBits-1, []byte("xy")) }},
		{"append", 1, func(_ DB, s String) error { return s.Write(s.Len(), []byte("tail")) }},
		{"read", 1, func(_ DB, s String) error {
			part, err := s.Part(5<<chunkBits, 5<<chunkBits+9)
			if string(part) != "abcdefghab" {
				t.Errorf("read %q", part)
			}
			return err
		}},
		{"expire", 0, func(d DB, _ String) error { _, err := d.SetExpireAt([]byte("k"), d.Now()+1e6); return err }},
		{"rename", 0, func(d DB, _ String) error {
			return errors.Join(d.Rename([]byte("k"), []byte("other")), d.Rename([]byte("other"), []byte("k")))
		}},
		{"length", 0, func(_ DB, s String) error {
			if s.Len() != size+4 {
				t.Errorf("the length is %d", s.Len())
			}
			return nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			closeTest(t, st)
			st = openStrings(t, fs)
			logged, cached := withString(t, st, st.NewTx(), tt.do)
			if limit := uint64(tt.chunks<<chunkBits + 500); logged > limit {
				t.Errorf("logged %d bytes, want %d at most", logged, limit)
			}
			if cached > tt.chunks {
				t.Errorf("looked at %d chunks, want %d", cached, tt.chunks)
			}
		})
	}
	copy(val[size/2:], "y")
	copy(val[3<<chunkBits-1:], "xy")
	withString(t, st, st.NewTx(), func(d DB, _ String) error {
		if got, _, err := d.Get([]byte("k")); err != nil || !bytes.Equal(got, append(val, "tail"...)) {
			t.Errorf("the string is not what was written: %v", err)
		}
		return nil
	})
	closeTest(t, st)
}

// TestWalkSeesChanges reads the whole of a string that the transaction has changed, and that is not cached, so that an iterator
// reads it; one that is kept in the cache then, and one that is too long for that.
func TestWalkSeesChanges(t *testing.T) {
	for _, size := range []int{100_000, 2 * cacheWholeBytes} {
		fs := vfs.NewMem()
		st := openStrings(t, fs)
		val := bytes.Repeat([]byte("abcdefgh"), size/8)
		withString(t, st, st.NewTx(), func(d DB, _ String) error { return d.Set([]byte("k"), val, 0) })
		closeTest(t, st)
		st = openStrings(t, fs)
		copy(val[size/2:], "x")
		for _, write := range []bool{true, false} {
			withString(t, st, st.NewTx(), func(d DB, s String) error {
				if write {
					if err := s.Write(int64(size/2), []byte("x")); err != nil {
						return err
					}
				}
				const walked = 8 << chunkBits // and the chunk behind is looked up
				for _, part := range [][2]int64{{0, walked - 1}, {walked, walked + 9}} {
					got, err := s.Part(part[0], part[1])
					if err != nil || !bytes.Equal(got, val[part[0]:part[1]+1]) {
						t.Errorf("bytes %d of %d are not what was written: %v", part, size, err)
					}
				}
				if got, _, err := d.Get([]byte("k")); err != nil || !bytes.Equal(got, val) {
					t.Errorf("the string of %d is not what was written: %v", size, err)
				}
				return nil
			})
		}
		closeTest(t, st)
	}
}

// TestSparseString writes far behind a string's end. It has rows only where something was written.
func TestSparseString(t *testing.T) {
	const far = 400 << 20
	fs := vfs.NewMem()
	st := openStrings(t, fs)
	logged, _ := withString(t, st, st.NewTx(), func(_ DB, s String) error {
		return errors.Join(s.Write(10, []byte("near")), s.Write(far, []byte("far")))
	})
	if logged > 10_000 {
		t.Errorf("logged %d bytes", logged)
	}
	for range 2 {
		withString(t, st, st.NewTx(), func(_ DB, s String) error {
			var at []int64
			err := s.Pieces(0, s.Len()-1, func(start int64, piece []byte) bool {
				if piece = bytes.TrimRight(piece, "\x00"); len(piece) > 0 {
					at = append(at, start+int64(len(piece)))
				}
				return true
			})
			if len(at) != 2 || at[0] != 14 || at[1] != far+3 || s.Len() != far+3 {
				t.Errorf("of %d bytes those to %d are not zero", s.Len(), at)
			}
			if part, err := s.Part(far-2, far); err != nil || string(part) != "\x00\x00f" {
				t.Errorf("around the far part is %q, %v", part, err)
			}
			return err
		})
		closeTest(t, st)
		st = openStrings(t, fs)
	}
	closeTest(t, st)
}

// TestChunksGoWithTheString removes strings of a few chunks, some of them without a row. Nothing is left for the janitor.
func TestChunksGoWithTheString(t *testing.T) {
	ways := map[string]func(d DB) error{
		"delete": func(d DB) error { _, err := d.Delete([]byte("k")); return err },
		"set":    func(d DB) error { return d.Set([]byte("k"), []byte("short"), 0) },
		"rename": func(d DB) error {
			if err := d.Set([]byte("other"), []byte("short"), 0); err != nil {
				return err
			}
			return d.Rename([]byte("other"), []byte("k"))
		},
	}
	for name, remove := range ways {
		for _, apart := range []bool{false, true} { // in the transaction that wrote the string, or later
			st := openStrings(t, vfs.NewMem())
			tx := st.NewTx()
			write := func(d DB, s String) error {
				err := errors.Join(s.Write(0, bytes.Repeat([]byte("x"), 3<<chunkBits)), s.Write(9<<chunkBits, []byte("end")))
				if err == nil && !apart {
					err = remove(d)
				}
				return err
			}
			withString(t, st, tx, write)
			if apart {
				if !leftRows(t, st) {
					t.Fatal("there are no rows to begin with")
				}
				withString(t, st, tx, func(d DB, _ String) error { return remove(d) })
			}
			if leftRows(t, st) {
				t.Errorf("%s, apart %v: rows are left", name, apart)
			}
			closeTest(t, st)
		}
	}
}

// TestChunkedRowsAreChecked decodes what a metadata row of a string in chunks can't be.
func TestChunkedRowsAreChecked(t *testing.T) {
	good := (&object{kind: KindString, id: 300, chunked: &chunkedBody{length: 100_000, bits: 12}}).encode(nil)
	var o object
	if err := o.decode(good); err != nil || o.id != 300 || o.chunked.length != 100_000 || o.count != 25 {
		t.Fatalf("decoded %+v: %v", o, err)
	}
	replaced := func(at int, b byte) []byte {
		row := bytes.Clone(good)
		row[at] = b
		return row
	}
	for name, row := range map[string][]byte{
		"cut off":     good[:len(good)-1],
		"too long":    append(bytes.Clone(good), 0),
		"a list":      replaced(0, byte(KindList)),
		"huge chunks": replaced(len(good)-1, maxChunkBits+1),
		"negative":    append(append(bytes.Clone(good[:4]), bytes.Repeat([]byte{0xff}, 9)...), 1, 12),
		"other mark":  replaced(1, 1<<5|metaVersion),
	} {
		if err := new(object).decode(row); !errors.Is(err, errCorruptRow) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
