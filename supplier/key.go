package supplier

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// The keys of a queue, as codeQ's Redis client writes them:
//
//	codeq:q:<command>[:<tenant>][:s:<shard>]:<state>      legacy
//	codeq:q:{<command>[:<tenant>]}[:s:<shard>]:<state>    hash-tagged
//
//	state = pending:<0-9> | inprog | delayed | dlq | paused | rate
//
// A tenant may contain anything, colons too, so the grammar needs rules; a key
// is read from both ends towards its middle:
//
//  1. The state is what the key ends with.
//  2. In the tagged form the queue is what stands between the first `{` and the
//     first `}` behind it, as in Redis' hash tags.
//  3. In the legacy form, when the two segments before the state are `s` and a
//     non-empty one, that one is the shard, provided that a command is left.
//  4. The command is the first segment of what remains, the tenant all the rest.
//
// Commands are lower-case. A key whose command is not, or is empty, or whose
// tenant is empty although its colon stands there, is nobody's queue key: it
// is an ordinary key. Hence each queue has exactly one key per state and form.
//
// Three kinds of names cannot be written so that they are read back the same,
// and Key.Validate refuses them: a command with a colon or a leading brace, a
// tenant that ends like a shard (`a:s:b`) in a legacy key without shard, and a
// `}` in a tagged key.
const queuePrefix = "codeq:q:"

// State is where in a queue a task waits.
type State uint8

// The states, each with its key.
const (
	Pending    State = iota // a list for each priority
	InProgress              // a set
	Delayed                 // a sorted set
	DLQ                     // a set
	Paused                  // a string, which is there while the queue is paused
	Rate                    // a string: how far the queue's rate of new tasks is used up
)

// String is the state's word in keys, without the priority.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case InProgress:
		return "inprog"
	case Delayed:
		return "delayed"
	case DLQ:
		return "dlq"
	case Paused:
		return "paused"
	case Rate:
		return "rate"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MaxPriority is the highest priority, the one claimed first; 0 is the lowest.
const MaxPriority = 9

// Key is one key of a queue.
type Key struct {
	Command  []byte // AppendTo lower-cases it
	Tenant   []byte // empty when the queue has none
	Shard    []byte // the name in the segment :s:<shard>:, or empty
	State    State
	Priority int  // 0 to MaxPriority; 0 unless State is Pending
	Tagged   bool // the hash-tagged form
}

// ParseKey reads a queue key; ok is false for every other key. The Key's
// slices alias key.
func ParseKey(key []byte) (k Key, ok bool) {
	parts, ok := splitKey(key)
	if !ok {
		return Key{}, false
	}
	k = Key{Shard: parts.shard, State: parts.state, Priority: parts.priority, Tagged: parts.tagged}
	k.Command, k.Tenant = splitQueue(parts.queue)
	return k, true
}

// TaskKeys lists the keys of a queue that hold its tasks, in the form of the
// one given; none for a key of no queue.
func TaskKeys(key []byte) (keys [][]byte) {
	k, ok := ParseKey(key)
	if !ok {
		return nil
	}
	k.State = Pending
	for k.Priority = range MaxPriority + 1 {
		keys = append(keys, k.AppendTo(nil))
	}
	k.Priority = 0
	for _, k.State = range []State{InProgress, Delayed, DLQ} {
		keys = append(keys, k.AppendTo(nil))
	}
	return keys
}

// AppendTo appends the key to dst. Only a Key that Validate accepts is read
// back as the same one.
func (k Key) AppendTo(dst []byte) []byte {
	dst = append(dst, queuePrefix...)
	if k.Tagged {
		dst = append(dst, '{')
	}
	dst = appendQueue(dst, foldCommand(k.Command), k.Tenant)
	if k.Tagged {
		dst = append(dst, '}')
	}
	if len(k.Shard) > 0 {
		dst = append(append(dst, ":s:"...), k.Shard...)
	}
	dst = append(append(dst, ':'), k.State.String()...)
	if k.State == Pending {
		dst = append(dst, ':', '0'+byte(k.Priority))
	}
	return dst
}

// Validate refuses what could not be read back from the key; see the grammar.
func (k Key) Validate() error {
	switch {
	case len(k.Command) == 0:
		return fmt.Errorf("the command is empty; give the queue's command")
	case bytes.IndexByte(k.Command, ':') >= 0 || k.Command[0] == '{':
		return fmt.Errorf("the command %q has a colon or begins with a brace; name it without", k.Command)
	case k.State > Rate:
		return fmt.Errorf("%v is no state of a queue", k.State)
	case k.Priority < 0 || k.Priority > MaxPriority || k.State != Pending && k.Priority != 0:
		return fmt.Errorf("the priority %d of %v is not possible; use 0 to %d, with pending only", k.Priority, k.State, MaxPriority)
	case !utf8.Valid(k.Command):
		return fmt.Errorf("the command %q is not UTF-8; name it in UTF-8", k.Command)
	case bytes.IndexByte(k.Shard, ':') >= 0:
		return fmt.Errorf("the shard %q has a colon, so it is no shard's name", k.Shard)
	}
	var room [128]byte
	back, ok := ParseKey(k.AppendTo(room[:0]))
	if !ok || !bytes.Equal(back.Tenant, k.Tenant) || !bytes.Equal(back.Shard, k.Shard) {
		return fmt.Errorf("the command %q and tenant %q would be read back otherwise; "+
			"a tenant may not end like a shard, in \":s:\" and a name, nor may a hash tag hold a \"}\"", k.Command, k.Tenant)
	}
	return nil
}

// appendQueue appends the text that stands for a queue: command[:tenant].
func appendQueue[T string | []byte](dst []byte, command, tenant T) []byte {
	dst = append(dst, command...)
	if len(tenant) > 0 {
		dst = append(append(dst, ':'), tenant...)
	}
	return dst
}

// splitQueue undoes appendQueue.
func splitQueue(queue []byte) (command, tenant []byte) {
	if i := bytes.IndexByte(queue, ':'); i >= 0 {
		return queue[:i], queue[i+1:]
	}
	return queue, nil
}

// keyParts is a queue key cut as far as routing needs it: the queue's text,
// command and tenant together, is what the router's cache is looked up by.
type keyParts struct {
	queue, shard []byte
	state        State
	priority     int
	tagged       bool
}

func splitKey(key []byte) (p keyParts, ok bool) {
	if !hasPrefix(key, queuePrefix) {
		return p, false
	}
	rest, state, priority, ok := cutState(key[len(queuePrefix):])
	if !ok || len(rest) == 0 {
		return p, false
	}
	p.state, p.priority = state, priority
	if rest[0] == '{' {
		p.tagged = true
		end := bytes.IndexByte(rest, '}')
		if end < 0 {
			return p, false
		}
		p.queue = rest[1:end]
		if tail := rest[end+1:]; len(tail) > 0 {
			if !hasPrefix(tail, ":s:") || len(tail) == len(":s:") || bytes.IndexByte(tail[len(":s:"):], ':') >= 0 {
				return p, false
			}
			p.shard = tail[len(":s:"):]
		}
	} else {
		p.queue, p.shard = cutShard(rest)
	}
	return p, validQueue(p.queue)
}

// cutState cuts the state off the end of a key, with the colon before it.
func cutState(b []byte) (rest []byte, state State, priority int, ok bool) {
	if len(b) == 0 {
		return nil, 0, 0, false
	}
	switch last := b[len(b)-1]; last {
	case 'g':
		rest, ok = cutSuffix(b, ":inprog")
		return rest, InProgress, 0, ok
	case 'd':
		if rest, ok = cutSuffix(b, ":paused"); ok {
			return rest, Paused, 0, true
		}
		rest, ok = cutSuffix(b, ":delayed")
		return rest, Delayed, 0, ok
	case 'e':
		rest, ok = cutSuffix(b, ":rate")
		return rest, Rate, 0, ok
	case 'q':
		rest, ok = cutSuffix(b, ":dlq")
		return rest, DLQ, 0, ok
	default:
		if last < '0' || last > '9' {
			return nil, 0, 0, false
		}
		rest, ok = cutSuffix(b[:len(b)-1], ":pending:")
		return rest, Pending, int(last - '0'), ok
	}
}

// cutShard cuts `:s:<shard>` off the end of a legacy key's queue.
func cutShard(b []byte) (queue, shard []byte) {
	i := bytes.LastIndexByte(b, ':')
	if i < 0 || i == len(b)-1 {
		return b, nil
	}
	queue, ok := cutSuffix(b[:i], ":s")
	if !ok || len(queue) == 0 {
		return b, nil
	}
	return queue, b[i+1:]
}

// validQueue says whether the text is a lower-case command, alone or with a
// tenant.
func validQueue(queue []byte) bool {
	command, tenant := splitQueue(queue)
	if len(command) == 0 || len(tenant) == 0 && len(command) != len(queue) {
		return false
	}
	for i := 0; i < len(command); {
		c := command[i]
		switch {
		case c >= 'A' && c <= 'Z':
			return false
		case c < utf8.RuneSelf:
			i++
		default:
			r, width := utf8.DecodeRune(command[i:])
			if unicode.ToLower(r) != r || r == utf8.RuneError && width == 1 {
				return false
			}
			i += width
		}
	}
	return true
}

// foldCommand lower-cases a command as codeQ's client does, with Unicode's
// rules. It copies only where there is something to change.
func foldCommand(command []byte) []byte {
	if validQueue(command) {
		return command
	}
	return bytes.ToLower(command)
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

func cutSuffix(b []byte, suffix string) ([]byte, bool) {
	n := len(b) - len(suffix)
	if n < 0 || string(b[n:]) != suffix {
		return nil, false
	}
	return b[:n], true
}
