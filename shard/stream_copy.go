package shard

import "errors"

// copyStream copies the stream at src, with its groups and what is pending in them, to a key that is absent.
func (d DB) copyStream(src, dst []byte) error {
	from, err := d.Stream(src)
	if err != nil {
		return err
	}
	to, err := d.Stream(dst)
	if err != nil {
		return err
	}
	if err := to.Create(); err != nil {
		return err
	}
	var failed error
	err = from.Range(StreamID{}, LastStreamID(), false, func(id StreamID, fields Fields) bool {
		raw := make([][]byte, fields.Len())
		for i := range raw {
			raw[i] = fields.Next()
		}
		failed = to.Add(id, raw)
		return failed == nil
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	groups, err := from.Groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := to.copyGroup(g); err != nil {
			return err
		}
	}
	b := from.o.stream
	to.o.stream.last, to.o.stream.maxDeleted, to.o.stream.added = b.last, b.maxDeleted, b.added
	return nil
}

// copyGroup copies a group of another stream.
func (st Stream) copyGroup(from Group) error {
	if _, err := st.CreateGroup([]byte(from.g.name), from.g.last, from.g.entriesRead); err != nil {
		return err
	}
	to, _, err := st.Group([]byte(from.g.name))
	if err != nil {
		return err
	}
	return from.EachConsumer(func(c Consumer) error {
		mine, _, err := to.See([]byte(c.c.name), c.c.seenMs)
		if err != nil {
			return err
		}
		var failed error
		err = from.EachPending(&c, StreamID{}, LastStreamID(), func(p Pending) bool {
			failed = to.SetPending(mine, p.ID, p.DeliveredMs, p.Deliveries)
			return failed == nil
		})
		return errors.Join(err, failed)
	})
}
