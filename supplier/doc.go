// Package supplier decides where things live: on which shard a queue's tasks
// are, and on which shard any key of a client is.
//
// It owns the names and ordinals of shards (Topology), the plug that maps a
// queue to a shard (ShardSupplier, and the built-in ones in a Registry), the
// formats of queue keys (Key), the ids that the server makes (NewID, ParseID)
// and the one function that the request path asks for every key (Router.Route).
//
// It must not know Pebble, transactions, the wire protocol or where settings
// come from: it answers with ordinals and leaves opening and locking shards to
// others.
//
// It starts no goroutines. A Router may be used by any number of goroutines
// and takes no lock: everything in it is fixed when it is made, but for a
// cache of the supplier's answers whose cells are replaced atomically. A
// Registry is filled and read while the server starts, by one goroutine.
//
// Every hash in this package is FNV-1a with 64 bits, taken modulo the number
// of shards in the default group, so that anybody can compute a key's shard
// with a few lines of any language.
package supplier

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Hash64 is FNV-1a 64 of b. hash/fnv gives the same value, but only through an
// interface that allocates.
func Hash64(b []byte) uint64 {
	h := uint64(fnvOffset)
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}
