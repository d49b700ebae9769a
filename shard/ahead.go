package shard

// Ahead says how many rows to read together with one that is wanted, of those that will be wanted next: few at first, as they may never
// be, and twice as many each time that all of them were used, as file systems read files ahead. It begins again when one is wanted that was
// read before: the cache loses rows then before they are used. The zero Ahead has read nothing yet.
type Ahead struct {
	size int // how many are to be read
	left int // of those that were, how many were not used yet
}

const (
	aheadLeast = 16
	aheadMost  = 256
)

// Next is how many to read, one that is wanted now among them.
func (a *Ahead) Next() int {
	if a.left > 0 {
		a.size = 0
	}
	a.size = min(max(2*a.size, aheadLeast), aheadMost)
	a.left = 0
	return a.size
}

// Read notes how many were read besides the one that was wanted.
func (a *Ahead) Read(n int) { a.left = n }

// Use notes that one is wanted that is at hand.
func (a *Ahead) Use() { a.left = max(a.left-1, 0) }
