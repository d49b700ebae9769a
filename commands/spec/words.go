package spec

import "strings"

// Flags say how a command behaves, in the words of COMMAND INFO.
type Flags uint32

// The constants stand in the order in which COMMAND INFO lists them. MovableKeys is derived and never declared.
const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	PubSubFlag
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	NoMandatoryKeys
	NoAsyncLoading
	NoMulti
	AllowBusy
	MovableKeys
)

func flagNames() []string {
	return []string{"write", "readonly", "denyoom", "admin", "pubsub", "noscript", "blocking", "loading",
		"stale", "skip_monitor", "skip_slowlog", "asking", "fast", "no_auth",
		"no_mandatory_keys", "no_async_loading", "no_multi", "allow_busy", "movablekeys"}
}

// Names lists the set flags in Redis' words and order.
func (f Flags) Names() []string { return bitNames(uint32(f), flagNames()) }

// Category is a set of ACL categories.
type Category uint32

// The constants stand in the order in which COMMAND INFO lists them. CatQueue is codeq's own. NoCategory, as a
// declaration's ACL, says that the group implies none.
const (
	CatKeyspace Category = 1 << iota
	CatRead
	CatWrite
	CatSet
	CatSortedSet
	CatList
	CatHash
	CatString
	CatBitmap
	CatHyperLogLog
	CatGeo
	CatStream
	CatPubSub
	CatAdmin
	CatFast
	CatSlow
	CatBlocking
	CatDangerous
	CatConnection
	CatTransaction
	CatScripting
	CatQueue
	NoCategory
)

// CategoryNames lists every ACL category, as ACL CAT does.
func CategoryNames() []string {
	return []string{"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog",
		"geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction",
		"scripting", "queue"}
}

// Names lists the categories of the set, without the "@".
func (c Category) Names() []string { return bitNames(uint32(c), CategoryNames()) }

// CategoryByName finds a category by its name without "@", in any case. It reports false for an unknown name.
func CategoryByName(name string) (Category, bool) {
	for i, n := range CategoryNames() {
		if strings.EqualFold(n, name) {
			return 1 << i, true
		}
	}
	return 0, false
}

// KeyFlags say how a command uses the keys that a KeySpec finds.
type KeyFlags uint16

// Every key has exactly one of the first four. RO reads the value; RW changes a value that it may read; OW overwrites
// the value unseen; RM deletes the key.
const (
	RO KeyFlags = 1 << iota
	RW
	OW
	RM
	Access        // returns, or uses, the value's content
	Update        // changes the value's content
	Insert        // adds content but changes none
	Delete        // removes content
	NotKey        // looks like a key and routes like one, but names something else (a shard channel)
	Incomplete    // the specification may miss keys; GetKeys knows them all
	VariableFlags // the flags depend on the arguments; GetKeys knows
)

// Names lists the set flags in Redis' words and order.
func (f KeyFlags) Names() []string {
	return bitNames(uint32(f), []string{"RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "not_key",
		"incomplete", "variable_flags"})
}

// DocFlags mark a command in the documentation.
type DocFlags uint8

// Deprecated commands say since when and what replaces them; SysCmd marks those that no user calls.
const (
	Deprecated DocFlags = 1 << iota
	SysCmd
)

// Names lists the set flags in Redis' words.
func (f DocFlags) Names() []string { return bitNames(uint32(f), []string{"deprecated", "syscmd"}) }

func bitNames(set uint32, names []string) []string {
	var out []string
	for i, name := range names {
		if set&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// Group is the family that a command is documented under.
type Group uint8

// The groups, in the order of the reference page. Queue holds codeq's own commands.
const (
	Queue Group = iota + 1
	Generic
	String
	List
	Hash
	Set
	SortedSet
	Stream
	Bitmap
	HyperLogLog
	Geo
	PubSub
	Transactions
	Scripting
	Connection
	Server
	Cluster
	lastGroup = Cluster
)

// String is the group's name in COMMAND DOCS.
func (g Group) String() string {
	names := [...]string{"", "queue", "generic", "string", "list", "hash", "set", "sorted-set", "stream", "bitmap",
		"hyperloglog", "geo", "pubsub", "transactions", "scripting", "connection", "server", "cluster"}
	if int(g) >= len(names) {
		return ""
	}
	return names[g]
}

// category is the ACL category of the group's commands that declare none.
func (g Group) category() Category {
	categories := [...]Category{0, CatQueue, CatKeyspace, CatString, CatList, CatHash, CatSet, CatSortedSet, CatStream,
		CatBitmap, CatHyperLogLog, CatGeo, 0, CatTransaction, CatScripting, CatConnection, 0, 0}
	if int(g) >= len(categories) {
		return 0
	}
	return categories[g]
}
