package commands

import (
	"strconv"
	"time"

	"codeq/commands/spec"
	"codeq/rdb"
	"codeq/resp"
	"codeq/shard"
)

// MIGRATE moves keys to another server: it sends them there as RESTORE takes them, and removes those that the other server has
// acknowledged.
//
// Nobody may change a key between the moment when it is read and the one when it is removed, or the change would be lost. Redis
// stops all its clients from the first step to the last. Here the other server is found, connected to and asked for a
// password and a database before any lock is taken; from the reading of the keys to their removal the shards of these keys
// are locked. That is the time that the values take to go over and be acknowledged; when nothing goes over for the time of
// the timeout, it ends. Clients of other shards are served meanwhile, since a session that takes long has a worker of its
// own (see resp/loop.go).
//
// To go without locks, and at the end remove only what has not changed, was the other way. A key that is in use would then never
// get away, and each try would leave a copy of a queue on the other server, whose tasks would run twice.
//
// What is sent can't be taken back, so MIGRATE runs once. A transaction or a script may have to run again, and can't hold it.

func migrateCommands() []Command {
	flags := spec.RW | spec.Access | spec.Delete
	return []Command{
		{Command: spec.Command{Name: "migrate",
			Syntax: `MIGRATE host port <key | ""> destination-db timeout:integer [COPY] [REPLACE] [[AUTH password] | [AUTH2 username password]] [KEYS key [key ...]]`,
			Group:  spec.Generic, Since: "2.6.0", Complexity: "O(N) where N is the size of the values, which are sent to the other server",
			Differs: "Not in MULTI and scripts. A password or a database that the other server refuses ends it, before keys are sent. " +
				"Connections are not kept for the next call. Refuses values over 512 MiB together.",
			Summary: "Moves keys to another server.",
			Flags:   spec.Write, ACL: spec.CatDangerous | spec.CatKeyspace,
			Keys: spec.Keys{spec.KeyAt(3, flags),
				{Flags: flags | spec.Incomplete, Begin: spec.Keyword("KEYS", -2), Find: spec.Range(-1, 1, 0)}}, GetKeys: spec.MigrateKeys,
			Hints: []string{"nondeterministic_output"}},
			Run: migrateCommand, Scope: scopeApart},
	}
}

// migration is a call of MIGRATE.
type migration struct {
	host, port    string
	keys          [][]byte
	db            int64
	timeout       time.Duration
	copy, replace bool
	auth          [][]byte // what AUTH is sent with
}

const (
	// defaultMigrateMs is the timeout in place of one that is not positive.
	defaultMigrateMs = 1000
	// maxMigrateBytes bounds what is sent, which is in memory as a whole.
	maxMigrateBytes = rdb.MaxSize
)

func parseMigration(a *arguments) (m *migration, err error) {
	m = &migration{host: string(a.bytes()), port: string(a.bytes())}
	m.keys = a.take(1)
	db, timeout := arguments{rest: a.take(1)}, arguments{rest: a.take(1)}
	for a.more() {
		switch {
		case a.token("COPY"):
			m.copy = true
		case a.token("REPLACE"):
			m.replace = true
		case a.token("AUTH"):
			m.auth = a.take(1)
		case a.token("AUTH2"):
			m.auth = a.take(2)
		case a.token("KEYS"):
			if len(m.keys[0]) > 0 {
				return nil, resp.ErrMigrateKeys
			}
			m.keys = a.all()
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	m.db = db.integer()
	ms := timeout.integer()
	a.fail(db.err)
	a.fail(timeout.err)
	if ms <= 0 {
		ms = defaultMigrateMs
	}
	m.timeout = waitFor(ms)
	if n, err := strconv.ParseUint(m.port, 10, 16); err != nil {
		m.port = "0" // where nobody listens
	} else {
		m.port = strconv.FormatUint(n, 10)
	}
	return m, a.err
}

// MIGRATE host port <key | ""> destination-db timeout [COPY] [REPLACE] [[AUTH password] | [AUTH2 username password]]
// [KEYS key [key ...]]
func migrateCommand(c *Call) error {
	if c.script || c.exec {
		return resp.ErrMigrateApart
	}
	m, err := parseMigration(c.args(0))
	if err != nil {
		return err
	}
	found := false
	err = c.withLocks(func() error {
		c.tx.CountLookups(true)
		for _, key := range m.keys {
			here, err := c.DB().Exists(key)
			if err != nil {
				return err
			}
			found = found || here
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !found {
		c.Out.Status("NOKEY")
		return nil
	}
	target, err := resp.DialServer(c.server.clock, m.host, m.port, m.timeout, c.session.conn.Done())
	if err != nil {
		return err
	}
	defer target.Close()
	if err := m.enter(target); err != nil {
		return err
	}
	return c.withLocks(func() error { return m.move(c, target) })
}

// withLocks runs fn in a transaction of its own, with the locks of the call's keys.
func (c *Call) withLocks(fn func() error) error {
	ss := c.session
	var mask shard.Mask
	if err := ss.addShards(&mask, c.cmd, c.Args); err != nil {
		return err
	}
	if err := c.server.store.Err(); err != nil {
		return err
	}
	c.tx = ss.tx
	c.tx.Begin(mask)
	c.tx.CountLookups(false)
	defer func() {
		ss.pos = max(ss.pos, c.tx.End())
		c.tx = nil
	}()
	if err := fn(); err != nil {
		return err
	}
	return c.tx.Commit()
}

// enter gives the password and selects the database.
func (m *migration) enter(target *resp.Client) error {
	var w resp.Writer
	requests := 1
	if m.auth != nil {
		requests = 2
		writeRequest(&w, "AUTH", m.auth...)
	}
	writeRequest(&w, "SELECT", strconv.AppendInt(nil, m.db, 10))
	if err := target.Send(w.Bytes()); err != nil {
		return err
	}
	for range requests {
		if refusal, err := target.Reply(); err != nil || refusal != nil {
			return refusedOr(err, refusal)
		}
	}
	return nil
}

func writeRequest(w *resp.Writer, name string, args ...[]byte) {
	w.Array(1 + len(args))
	w.BulkString(name)
	for _, arg := range args {
		w.Bulk(arg)
	}
}

// refusedOr is the error for a refusal, if there is one, or else err.
func refusedOr(err error, refusal []byte) error {
	if refusal != nil {
		return resp.ErrMigrateRefused(refusal)
	}
	return err
}

// move sends the keys and removes those that are acknowledged, also if others are not.
func (m *migration) move(c *Call, target *resp.Client) error {
	requests, sent, err := m.requests(c)
	if err != nil {
		return err
	}
	if len(sent) == 0 { // they have gone since
		c.Out.Status("NOKEY")
		return nil
	}
	if err := target.Send(requests); err != nil {
		return err
	}
	var refusal []byte // the first one
	for _, key := range sent {
		var refused []byte
		if refused, err = target.Reply(); err != nil {
			break
		}
		switch {
		case refused != nil && refusal == nil:
			refusal = refused
		case refused == nil && !m.copy:
			deleted, err := c.DB().Delete(key)
			if err != nil {
				return err
			}
			c.notifyIf(deleted, shard.NoteGeneric, eventDel, key)
		}
	}
	if err = refusedOr(err, refusal); err != nil {
		c.Out.Error(err) // rather than return it: what is removed stays removed
	} else {
		c.Out.OK()
	}
	return nil
}

// requests are RESTOREs of the keys that are there.
func (m *migration) requests(c *Call) (requests []byte, sent [][]byte, err error) {
	var w resp.Writer
	w.SetLimit(maxMigrateBytes)
	for _, key := range m.keys {
		atMs, exists, err := c.DB().ExpireAt(key)
		if err != nil {
			return nil, nil, err
		}
		if !exists {
			continue
		}
		v, _, err := readValue(c.DB(), key)
		if err != nil {
			return nil, nil, err
		}
		ttl := int64(0)
		if atMs != 0 {
			ttl = atMs - c.DB().Now()
		}
		args := [][]byte{key, strconv.AppendInt(nil, ttl, 10), rdb.Encode(&v)}
		if m.replace {
			args = append(args, []byte("REPLACE"))
		}
		writeRequest(&w, "RESTORE", args...)
		if w.Overflowed() {
			return nil, nil, resp.ErrValueTooBig
		}
		sent = append(sent, key)
	}
	return w.Bytes(), sent, nil
}
