package shard

// texts is memory of values that are cached no more, for those that come. Values that come and go by the ten thousand a second would each
// take memory that no cache of the processor has; of these the last to go is the first to be used again.
type texts struct {
	free     [][]byte
	outdated [][]byte // of the transaction in progress
}

const (
	// maxTexts is how many are kept.
	maxTexts = 128
	// maxTextRoom is how large those are at most.
	maxTextRoom = 2 << 10
	// textStep is what room is a multiple of: a task's JSON grows with each step, and shall find its room in what another's left.
	textStep = 128
	// textTries is how many are looked at for one that is large enough.
	textTries = 4
)

// copyOf is a copy of the value.
func (t *texts) copyOf(val []byte) []byte {
	if len(val) > maxTextRoom {
		return append(make([]byte, 0, len(val)), val...)
	}
	last := len(t.free) - 1
	for i := last; i >= max(0, last-textTries+1); i-- {
		room := t.free[i]
		if cap(room) < len(val) || cap(room) > 2*len(val)+textStep {
			continue
		}
		t.free[i], t.free[last] = t.free[last], nil
		t.free = t.free[:last]
		return append(room[:0], val...)
	}
	return append(make([]byte, 0, (len(val)+textStep-1)/textStep*textStep), val...)
}

// settle makes the outdated ones free after a commit.
func (t *texts) settle() {
	for _, text := range t.outdated {
		if len(t.free) < maxTexts && cap(text) <= maxTextRoom {
			t.free = append(t.free, text)
		}
	}
	t.abort()
}

// abort forgets the outdated ones.
func (t *texts) abort() {
	if cap(t.outdated) > maxTexts {
		t.outdated = nil
	}
	clear(t.outdated)
	t.outdated = t.outdated[:0]
}
