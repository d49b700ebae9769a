package queue

import (
	"fmt"
	"math"

	"codeq/shard"
	"codeq/supplier"
)

// Slots and shares. A queue is cut into slots by the first digits of its tasks' ids, so finely that consumers can be any number: each takes a
// share, which is a range of slots. The pending lists stay as they are; the store keeps an index of those that are claimed
// from by slot (shard/slots.go).

// Slots says of which slots of a queue a claim takes tasks: of one of several shares, or from one slot to another. The zero value
// means all, which is no matter of slots then.
type Slots struct {
	Share, Of int64  // Of is 0 if no share is meant
	From, To  []byte // hexadecimal; nil if no slots are named
}

// IsAll tells whether no slots are meant.
func (s *Slots) IsAll() bool { return s.Of == 0 && s.From == nil }

// String is the option as clients write it.
func (s *Slots) String() string {
	if s.From == nil {
		return fmt.Sprintf("SHARE %d OF %d", s.Share, s.Of)
	}
	return fmt.Sprintf("SLOTS %s-%s", s.From, s.To)
}

// of are the slots of a queue that is cut by so many digits.
func (s *Slots) of(digits int) (r shard.SlotRange, err error) {
	slots := int64(1) << (4 * digits)
	if s.From == nil {
		if s.Of < 1 || s.Of > slots || s.Share < 0 || s.Share >= s.Of {
			return r, fmt.Errorf("with %d slots there can be 1 to %d shares, which count from 0", slots, slots)
		}
		return shard.SlotRange{From: uint16(s.Share * slots / s.Of), To: uint16((s.Share+1)*slots/s.Of - 1)}, nil
	}
	from, good := slotOf(s.From, digits)
	to, alsoGood := slotOf(s.To, digits)
	if !good || !alsoGood || from > to {
		return r, fmt.Errorf("its slots are %0*x-%0*x, in %d hexadecimal digits, the lower one first", digits, 0, digits, slots-1, digits)
	}
	return shard.SlotRange{From: from, To: to}, nil
}

// slotOf reads the text of a slot.
func slotOf(text []byte, digits int) (slot uint16, ok bool) {
	if len(text) != digits {
		return 0, false
	}
	for _, c := range text {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return 0, false
		}
	}
	return supplier.Slot(text, digits), true
}

// Wanted are the slots to wait for, in four digits, whatever the number of digits is at present that a queue is cut by.
func (s *Slots) Wanted() shard.SlotRange {
	wanted := shard.SlotRange{From: math.MaxUint16}
	for digits := 1; digits <= shard.MaxSlotDigits; digits++ {
		if r, err := s.of(digits); err == nil {
			shift := 4 * (shard.MaxSlotDigits - digits)
			wanted.From = min(wanted.From, r.From<<shift)
			wanted.To = max(wanted.To, r.To<<shift|(1<<shift-1))
		}
	}
	return wanted
}

// openSlots finds the slots of each queue of the claim, checks that they can be claimed, and then says that they are.
func (t *Tx) openSlots(c *Claim) error {
	t.slots = t.slots[:0]
	for _, name := range c.Queues {
		if _, err := t.locate(name); err != nil {
			return err
		}
		r, err := c.Slots.of(t.policy().SlotDigits)
		if err != nil {
			return failed(Invalid, "%s is not possible in the queue %s: %v", &c.Slots, name, err)
		}
		t.slots = append(t.slots, r)
		for priority := range supplier.MaxPriority + 1 {
			if _, err := t.db.List(t.pending(priority)); err != nil {
				return err
			}
		}
	}
	for _, name := range c.Queues {
		if _, err := t.locate(name); err != nil {
			return err
		}
		pending, err := t.db.List(t.pending(0)) // which stands for all of them
		if err == nil {
			err = pending.ExpectSlots()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take takes the next task out of a pending list of the i-th queue of the claim, which t works on.
func (t *Tx) take(c *Claim, i int, pending shard.List) (id []byte, ok bool, err error) {
	if c.Slots.IsAll() {
		return pending.Pop(shard.Tail)
	}
	return pending.PopSlot(t.policy().SlotDigits, t.slots[i])
}

// extendSlots has the store index more of a pending list that was there before it was claimed from by slot.
func (t *Tx) extendSlots(ordinal int, key []byte) (more bool, err error) {
	defer t.db.NarrowTo(t.db.Narrow(ordinal))
	pending, err := t.db.List(key)
	if err != nil {
		return false, t.tolerate(err)
	}
	return pending.ExtendSlots()
}

// Slot is the slot of a task in a pending list, see shard.Tracker.
func (q *Queues) Slot(id []byte, digits int) uint16 { return supplier.Slot(id, digits) }

// SlotDigits is by how many digits the queue of a pending list is cut, see shard.Tracker.
func (q *Queues) SlotDigits(key []byte) int {
	k, _ := supplier.ParseKey(key)
	return q.policies().of(Name{k.Command, k.Tenant}).SlotDigits
}
