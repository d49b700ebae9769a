package shard

import "fmt"

// What a transaction takes is bounded, over all its shards: the bytes that its commit writes, and the memory that is taken until
// then. The second is more than the first, for what is changed stays in the cache, whatever the cache's own bound, and small rows
// cost more there than on disk. Both are counted where rows and objects are changed, so the bound holds for a command that
// stores a large result as for scripts and MULTI. It is counted, not measured: what is written twice counts twice.
//
// What is only read is not counted. Between commands nobody refers to it, so Check evicts it.

const (
	// maxTransaction is the bytes of rows that one transaction may write.
	maxTransaction = 512 << 20
	// maxHeld is the bytes of memory that it may take. A string of nearly maxTransaction takes as much in the cache as in the batch.
	maxHeld = 2 * maxTransaction
	// largeTransaction is the bytes of memory from which on who may commit at any time does.
	largeTransaction = 16 << 20
	// dirtyOverhead is what a changed key adds to a commit besides its name, at most, unless it is a string.
	dirtyOverhead = 64
)

// ErrTooBig is returned by Commit when the transaction exceeds what one may write, or take in memory.
var ErrTooBig = fmt.Errorf("transaction exceeds %d MiB: split it", maxTransaction>>20)

// spent is what a transaction has taken.
type spent struct {
	rows      int  // bytes of the keys and values in the batches
	unwritten int  // bytes of metadata rows and strings that Commit will add, about
	held      int  // bytes of memory, about, for all of that and what the cache keeps of it
	tooMuch   bool // one of the bounds was passed: Commit will fail
}

// write counts a row that is about to be put into a batch, and tells whether there is room for it.
func (tx *Tx) write(bytes int) bool {
	tx.spent.rows += bytes
	if tx.spent.rows > maxTransaction {
		tx.spent.tooMuch = true
	}
	tx.occupy(elementOverhead + 2*bytes)
	return !tx.spent.tooMuch
}

// spend counts what Commit will add to a batch, so that a transaction which can't be committed is known to be so before it has
// taken all memory.
func (tx *Tx) spend(bytes int) {
	tx.spent.unwritten += bytes
	if tx.spent.rows+tx.spent.unwritten > maxTransaction {
		tx.spent.tooMuch = true
	}
	tx.occupy(2 * bytes)
}

// occupy counts memory.
func (tx *Tx) occupy(bytes int) {
	tx.spent.held += bytes
	if tx.spent.held > maxHeld {
		tx.spent.tooMuch = true
	}
}

// beginWriting is called when Commit begins to write what was unwritten, which is counted as rows from now on.
func (tx *Tx) beginWriting() {
	tx.spent.unwritten, tx.spent.held = 0, 0
}

// IsLarge tells whether the transaction takes so much memory that it is better committed than gone on with.
func (tx *Tx) IsLarge() bool { return tx.spent.held > largeTransaction }

// Check returns ErrTooBig when it is known already that Commit will, and sees to it that the cache does not grow with what the transaction
// reads. Who lets a client go on and on calls it between commands; handles that were taken before it are not used after it.
func (tx *Tx) Check() error {
	if tx.spent.tooMuch {
		return ErrTooBig
	}
	for n := tx.locked.next(0); n >= 0; n = tx.locked.next(n + 1) {
		tx.store.shards[n].cache.evictClean()
	}
	return nil
}
