package commands

import (
	"unsafe"

	"codeq/shard"
)

// commandQueue holds copies of the commands that wait for EXEC. What it has copied never moves: memory that grew by being moved
// would stay with the commands before, which point into it, and a queue would take several times its bytes.
type commandQueue struct {
	steps []step
	words blocks[[]byte]
	bytes blocks[byte]
	size  int64 // see footprint
}

// maxKeptQueue bounds the memory for the bytes of queued commands that a session keeps between transactions; maxKeptPositions
// does for their words, and maxKeptSteps for the commands.
const maxKeptQueue = 64 << 10

// wordBytes and stepBytes are the memory for a queued word besides its bytes, and for a queued command.
const (
	wordBytes = int64(unsafe.Sizeof([]byte(nil)))
	stepBytes = int64(unsafe.Sizeof(step{}))
)

// footprint is the memory that a command with these words takes in a queue: words without a byte count, too.
func footprint(args [][]byte) int64 {
	size := stepBytes + int64(len(args))*wordBytes
	for _, arg := range args {
		size += int64(len(arg))
	}
	return size
}

// add copies a command to the end of the queue.
func (q *commandQueue) add(cmd *Command, args [][]byte) {
	words := q.words.take(len(args), maxKeptPositions)
	for i, arg := range args {
		words[i] = q.bytes.take(len(arg), maxKeptQueue)
		copy(words[i], arg)
	}
	q.steps = append(q.steps, step{cmd: cmd, args: words})
	q.size += footprint(args)
}

// reset empties the queue and keeps some of its memory.
func (q *commandQueue) reset() {
	clear(q.steps)
	q.steps = q.steps[:0]
	if cap(q.steps) > maxKeptSteps {
		q.steps = nil
	}
	q.words.reset()
	q.bytes.reset()
	q.size = 0
}

// blocks gives away pieces of blocks of memory.
type blocks[T any] struct{ last []T } // what has been given away of the last block

// smallestBlock is the length of the first block, and largePart the part of the largest one from which on a piece has memory of
// its own, so that little is left over at the end of a block.
const (
	smallestBlock = 64
	largePart     = 8
)

// take returns a piece of n elements. Each block is twice as long as the one before, up to the largest.
func (b *blocks[T]) take(n, largest int) []T {
	if n >= largest/largePart {
		return make([]T, n)
	}
	start := len(b.last)
	if n > cap(b.last)-start {
		b.last, start = make([]T, 0, min(max(smallestBlock, 2*cap(b.last), n), largest)), 0
	}
	b.last = b.last[:start+n]
	return b.last[start : start+n : start+n]
}

// reset takes back all pieces and keeps the last block.
func (b *blocks[T]) reset() {
	clear(b.last)
	b.last = b.last[:0]
}

// diskBars says why the room on the disk bars one of the commands, if it does.
func (q *commandQueue) diskBars(st *shard.Store) error {
	if !st.DiskLow() {
		return nil
	}
	for i := range q.steps {
		if err := q.steps[i].cmd.diskBars(st); err != nil {
			return err
		}
	}
	return nil
}
