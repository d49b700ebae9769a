// Package supplier decides where things live: on which shard a queue's tasks
// are, and on which shard any key of a client is.
//
// It owns the names and ordinals of shards (Topology), the plug that maps a
// queue to a shard (ShardSupplier, and the built-in ones in a Registry), the
// formats of queue keys (Key), the ids that the server makes (AppendID, ParseID)
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
// Every hash in this package is Hash64, and a shard is its remainder by the
// number of shards in the default group, so that anybody can compute a key's
// shard with a few lines of any language (ADR 0007 has them).
package supplier

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// The finalizer of MurmurHash3 with 128 bits:
// https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp.
const (
	mixFirst  = 0xff51afd7ed558ccd
	mixSecond = 0xc4ceb9fe1a85ec53
)

// Hash64 is FNV-1a 64 of b, with its bits mixed. Without that, the low bits of
// FNV-1a depend on nothing but the low bits of the bytes, and keys that repeat a
// number, such as job:7:7, would leave half of the shards empty; its high bits
// hardly depend on the last byte.
func Hash64(b []byte) uint64 {
	h := uint64(fnvOffset)
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	h = (h ^ h>>33) * mixFirst
	h = (h ^ h>>33) * mixSecond
	return h ^ h>>33
}
