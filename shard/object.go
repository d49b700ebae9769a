package shard

import (
	"encoding/binary"
	"fmt"
)

// Kind is the type of the value at a key.
type Kind uint8

// The kinds. Their numbers are on disk.
const (
	KindNone Kind = iota
	KindString
	KindList
	KindHash
	KindSet
	KindZSet
	KindStream
	// kindGroup is a consumer group of a stream, a collection without a key. Only graves have it.
	kindGroup Kind = 64
	// kindSlots is a list with an index by slot. Only graves have it.
	kindSlots Kind = 66
	// KindGroup is what those wait for who wait for a group of keys, see Tracking. No key has it.
	KindGroup Kind = 65
)

// String returns the name that Redis' TYPE gives the kind.
func (k Kind) String() string {
	switch k {
	case KindNone:
		return "none"
	case KindString:
		return "string"
	case KindList:
		return "list"
	case KindHash:
		return "hash"
	case KindSet:
		return "set"
	case KindZSet:
		return "zset"
	case KindStream:
		return "stream"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// object is what a shard knows of one key in memory: its decoded metadata row and, for a collection, the
// part of its elements that is cached. An object of KindNone says that the key is known to be absent.
//
// Objects are guarded by their shard's lock, which a transaction holds alone, so they are changed in place.
// An object that a transaction changed is dirty until the commit; aborting drops it from the cache, and the
// next reader decodes the metadata row afresh.
type object struct {
	key      string
	db       *cachedDB // where it is cached
	kind     Kind
	expireAt int64  // unix ms; 0: never
	id       uint64 // collection id
	count    int64  // elements of a collection, chunks of a string
	str      []byte // a string's value, unless it is in chunks

	chunked *chunkedBody

	list   *listBody
	hash   *hashBody
	set    *setBody
	zset   *zsetBody
	stream *streamBody

	arrivals arrivals // of a hash

	ordered bool      // rows of elements stand where Tracker.Order says; of a hash or sorted set
	track   *Tracking // what the key means to the tracker; nil if nothing
	listed  bool      // its rows in the registry are there, or come with the commit
	foreign bool      // somebody else than the tracker has changed it in this transaction

	stored bool // a metadata row exists on disk
	named  bool // one did by the last commit
	dirty  bool
	quiet  bool   // what the transaction has changed so far is nothing to those who watch the key; see changeStream
	turn   uint64 // when the object was last made dirty, counted while somebody waits on the shard; see gatherReady
	bytes  int    // what the cache has charged for it

	prev, next *object // the ring of its database, most recently used first
	used       uint64  // when it was last used, see objectCache.uses
}

// objectOverhead is what an object without elements costs in memory, about, besides its key and value.
const objectOverhead = 256

// bodyOverhead is what a collection costs besides that and its elements, about: its body, and the room that its containers
// begin with.
const bodyOverhead = 512

// footprint estimates the resident bytes of the object.
func (o *object) footprint() int {
	n := objectOverhead + len(o.key) + cap(o.str)
	if o.kind > KindString {
		n += bodyOverhead
	}
	switch {
	case o.chunked != nil:
		n += o.chunked.bytes
	case o.list != nil:
		n += o.list.footprint()
	case o.hash != nil:
		n += o.hash.footprint() + o.arrivals.names.footprint()
	case o.set != nil:
		n += o.set.footprint()
	case o.zset != nil:
		n += o.zset.footprint()
	case o.stream != nil:
		n += o.stream.footprint()
	}
	return n
}

// unwritten is the bytes of the value that the object keeps until the transaction commits, if it has changed them.
func (o *object) unwritten() int {
	if o.chunked != nil {
		return len(o.chunked.dirty) << o.chunked.bits
	}
	return len(o.str)
}

// dropElements forgets cached elements so that the object's footprint falls by half or more.
func (o *object) dropElements() {
	switch {
	case o.chunked != nil:
		o.chunked.shrink()
	case o.list != nil:
		o.list.shrink(0)
	case o.hash != nil:
		o.hash.shrink(o)
	case o.set != nil:
		o.set.shrink(o)
	case o.zset != nil:
		o.zset.shrink(o)
	case o.stream != nil:
		o.stream.shrink(o)
	}
}

// metaVersion is the version of the metadata rows' encoding.
const metaVersion = 1

// Marks on the version.
const (
	metaHasExpiry = 1 << 7
	metaInChunks  = 1 << 6
	metaOrdered   = 1 << 5
)

// encode appends the metadata row's value:
//
//	kind u8 · version u8, marked when an expiry follows, for a string in chunks, for ordered rows · expire-at ms u64 ·
//	string: the value, or in chunks: id, length as uvarints, logarithm of the chunk size u8 ·
//	collection: id, count as uvarints ·
//	list: head, tail as varints, and with an index by slot: its digits as uvarint, from as varint · sorted set: see zsetBody.encode · stream: see streamBody.encode
func (o *object) encode(dst []byte) []byte {
	version := byte(metaVersion)
	if o.expireAt != 0 {
		version |= metaHasExpiry
	}
	if o.chunked != nil {
		version |= metaInChunks
	}
	if o.ordered {
		version |= metaOrdered
	}
	dst = append(dst, byte(o.kind), version)
	if o.expireAt != 0 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(o.expireAt))
	}
	if o.chunked != nil {
		return o.chunked.encode(dst, o.id)
	}
	if o.kind == KindString {
		return append(dst, o.str...)
	}
	dst = binary.AppendUvarint(dst, o.id)
	dst = binary.AppendUvarint(dst, uint64(o.count))
	switch o.kind {
	case KindList:
		dst = binary.AppendVarint(dst, o.list.head)
		dst = binary.AppendVarint(dst, o.list.tail)
		if x := o.list.slots; x != nil {
			dst = binary.AppendVarint(binary.AppendUvarint(dst, uint64(x.digits)), x.from)
		}
	case KindZSet:
		dst = o.zset.encode(dst)
	case KindStream:
		dst = o.stream.encode(dst)
	}
	return dst
}

// decode fills the object from its metadata row's value.
func (o *object) decode(val []byte) error {
	if len(val) < 2 || val[1]&^(metaHasExpiry|metaInChunks|metaOrdered) != metaVersion {
		return errCorruptRow
	}
	o.kind, o.ordered = Kind(val[0]), val[1]&metaOrdered != 0
	rest := val[2:]
	if val[1]&metaHasExpiry != 0 {
		if len(rest) < 8 {
			return errCorruptRow
		}
		o.expireAt = int64(binary.BigEndian.Uint64(rest))
		rest = rest[8:]
	}
	o.stored = true
	if o.ordered && o.kind != KindHash && o.kind != KindZSet {
		return errCorruptRow
	}
	if val[1]&metaInChunks != 0 {
		return o.decodeChunked(rest)
	}
	if o.kind == KindString {
		o.str = append(make([]byte, 0, len(rest)), rest...)
		return nil
	}
	r := varintReader{rest: rest}
	o.id = r.uvarint()
	o.count = int64(r.uvarint())
	switch o.kind {
	case KindList:
		o.list = &listBody{head: r.varint(), tail: r.varint()}
		o.list.slots = decodeSlots(&r)
	case KindHash:
		o.hash = newHashBody(o.commonName())
	case KindSet:
		o.set = newSetBody(o.commonName())
	case KindZSet:
		o.zset = decodeZSet(&r, o.commonName())
	case KindStream:
		o.stream = decodeStream(&r, o.count)
	default:
		return errCorruptRow
	}
	if r.bad {
		return errCorruptRow
	}
	return nil
}

// grave is the kind of the collection as its rows go, see rowsOf.
func (o *object) grave() Kind {
	if o.list != nil && o.list.slots != nil {
		return kindSlots
	}
	return o.kind
}

// hasRows tells whether the value has rows besides its metadata.
func (o *object) hasRows() bool {
	return o.count > 0 || o.stream != nil && o.stream.groupCount > 0
}

// become turns an absent object into an empty collection of the kind.
func (o *object) become(kind Kind, id uint64) {
	o.kind, o.id, o.count, o.expireAt = kind, id, 0, 0
	o.ordered = o.track != nil && o.track.Ordered && (kind == KindHash || kind == KindZSet)
	switch kind {
	case KindList:
		o.list = &listBody{}
	case KindHash:
		o.hash = newHashBody(o.commonName())
	case KindSet:
		o.set = newSetBody(o.commonName())
	case KindZSet:
		o.zset = newZSetBody(o.commonName())
		o.zset.setWhole(scoreWindow{tree: newScoreTree()})
	case KindStream:
		o.stream = &streamBody{news: true}
	}
}

// commonName is where the collections of the object's database have a name in common, see elements.textOf; nil if the object is of none.
func (o *object) commonName() *string {
	if o.db == nil {
		return nil
	}
	return o.db.common
}

// clear makes the object absent.
func (o *object) clear() {
	o.kind, o.expireAt, o.id, o.count, o.str = KindNone, 0, 0, 0, nil
	o.chunked, o.list, o.hash, o.set, o.zset, o.stream, o.ordered = nil, nil, nil, nil, nil, nil, false
	o.arrivals = arrivals{}
}

// varintReader reads varints until one is bad; after that it yields zeros.
type varintReader struct {
	rest []byte
	bad  bool
}

func (r *varintReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *varintReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}
