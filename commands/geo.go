package commands

import (
	"cmp"
	"slices"
	"strconv"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// Geographic indexes: sorted sets whose scores are places, see geohash.go. For a new command add an entry to the table
// and, in the same order, its handler. All searches share one parser and one walk; what sets them apart is a geoForm.

func geoCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "geoadd", Syntax: "GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
			Group: spec.Geo, Since: "3.2.0", Complexity: "O(log(N)) for each member with N the size of the sorted set",
			Summary:  "Adds members with their places to a geographic index, or moves those that are in it.",
			Flags:    spec.Write | spec.DenyOOM,
			Keys:     spec.Keys{spec.FirstKey(spec.RW | spec.Update)},
			Elements: spec.ElementsAfter(2, 2, 3, "NX", "XX", "CH")}, Run: geoadd},
		{Command: spec.Command{Name: "geodist", Syntax: "GEODIST key member1 member2 [M | KM | FT | MI]",
			Group: spec.Geo, Since: "3.2.0", Complexity: "O(1)",
			Differs: "The last bits of a distance may differ.",
			Summary: "Returns the distance between two members of a geographic index.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: geodist},
		{Command: spec.Command{Name: "geohash", Syntax: "GEOHASH key member [member ...]", Arity: -2,
			Group: spec.Geo, Since: "3.2.0", Complexity: "O(N) with N the number of members asked for",
			Summary:  "Returns the places of members of a geographic index as geohash strings.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Elements: spec.ElementsFrom(2, 1)}, Run: geohash},
		{Command: spec.Command{Name: "geopos", Syntax: "GEOPOS key member [member ...]", Arity: -2,
			Group: spec.Geo, Since: "3.2.0", Complexity: "O(N) with N the number of members asked for",
			Summary:  "Returns the longitudes and latitudes of members of a geographic index.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Elements: spec.ElementsFrom(2, 1)}, Run: geopos},
		{Command: spec.Command{Name: "georadius", Syntax: "GEORADIUS key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]",
			Group: spec.Geo, Since: "3.2.0", Complexity: "O(N+log(M)) with N the members in the cells around the circle and M the size of the sorted set",
			Differs: "The last bits of a distance may differ. With COUNT, members at the same distance come as the search finds " +
				"them (Redis: in any order).",
			Summary: "Returns or stores the members of a geographic index within a radius of a place.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys: spec.Keys{spec.FirstKey(spec.RO | spec.Access),
				{Flags: spec.OW | spec.Update, Begin: spec.Keyword("STORE", 6), Find: spec.Range(0, 1, 0)},
				{Flags: spec.OW | spec.Update, Begin: spec.Keyword("STOREDIST", 6), Find: spec.Range(0, 1, 0)}},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument"},
			Run: geoSearch(geoForm{around: aroundPlace, storeOption: true}), Reads: true},
		{Command: spec.Command{Name: "georadius_ro", Syntax: "GEORADIUS_RO key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
			Group: spec.Geo, Since: "3.2.10", Complexity: "O(N+log(M)) with N the members in the cells around the circle and M the size of the sorted set",
			Differs:  "As GEORADIUS.",
			Summary:  "Returns the members of a geographic index within a radius of a place.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`GEOSEARCH` with the `BYRADIUS` argument"},
			Run: geoSearch(geoForm{around: aroundPlace})},
		{Command: spec.Command{Name: "georadiusbymember", Syntax: "GEORADIUSBYMEMBER key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]",
			Group: spec.Geo, Since: "3.2.0", Complexity: "O(N+log(M)) with N the members in the cells around the circle and M the size of the sorted set",
			Differs: "As GEORADIUS.",
			Summary: "Returns or stores the members of a geographic index within a radius of a member.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys: spec.Keys{spec.FirstKey(spec.RO | spec.Access),
				{Flags: spec.OW | spec.Update, Begin: spec.Keyword("STORE", 5), Find: spec.Range(0, 1, 0)},
				{Flags: spec.OW | spec.Update, Begin: spec.Keyword("STOREDIST", 5), Find: spec.Range(0, 1, 0)}},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments"},
			Run: geoSearch(geoForm{around: aroundMember, storeOption: true}), Reads: true},
		{Command: spec.Command{Name: "georadiusbymember_ro", Syntax: "GEORADIUSBYMEMBER_RO key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
			Group: spec.Geo, Since: "3.2.10", Complexity: "O(N+log(M)) with N the members in the cells around the circle and M the size of the sorted set",
			Differs:  "As GEORADIUS.",
			Summary:  "Returns the members of a geographic index within a radius of a member.",
			Flags:    spec.ReadOnly,
			Keys:     spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			DocFlags: spec.Deprecated, DeprecatedSince: "6.2.0", ReplacedBy: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments"},
			Run: geoSearch(geoForm{around: aroundMember})},
		{Command: spec.Command{Name: "geosearch", Syntax: "GEOSEARCH key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
			Group: spec.Geo, Since: "6.2.0", Complexity: "O(N+log(M)) with N the members in the cells around the shape and M the size of the sorted set",
			Differs: "As GEORADIUS.",
			Summary: "Returns the members of a geographic index inside a circle or a box.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}},
			Run: geoSearch(geoForm{})},
		{Command: spec.Command{Name: "geosearchstore", Syntax: "GEOSEARCHSTORE destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]",
			Group: spec.Geo, Since: "6.2.0", Complexity: "O(N+log(M)) with N the members in the cells around the shape and M the size of the sorted set",
			Differs: "As GEORADIUS.",
			Summary: "Stores the members of a geographic index inside a circle or a box in another one and counts them.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.FirstKey(spec.OW | spec.Update), spec.KeyAt(2, spec.RO|spec.Access)}},
			Run: geoSearch(geoForm{destination: true}), Reads: true},
	}
}

// float takes a number; otherwise is the error if it is none.
func (a *arguments) float(otherwise error) float64 {
	f, ok := parseFloat(a.bytes())
	if !ok {
		a.fail(otherwise)
	}
	return f
}

// place takes a longitude and a latitude.
func (a *arguments) place() place {
	p := place{a.float(resp.ErrNotFloat), a.float(resp.ErrNotFloat)}
	if !p.onMap() {
		a.fail(resp.ErrLongitudeLatitude(p.longitude, p.latitude))
	}
	return p
}

// unit takes a unit of length and returns it in metres.
func (a *arguments) unit() float64 {
	switch {
	case a.token("M"):
		return 1
	case a.token("KM"):
		return 1000
	case a.token("FT"):
		return 0.3048
	case a.token("MI"):
		return 1609.34
	}
	a.fail(resp.ErrGeoUnit)
	return 1
}

// GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]
func geoadd(c *Call) error {
	a := c.args(1)
	o := geoaddOptions(a)
	if len(a.rest) == 0 || len(a.rest)%3 != 0 || o.nx && o.xx {
		return resp.ErrSyntax
	}
	var members []scoredMember
	for a.more() {
		p := a.place()
		members = append(members, scoredMember{member: a.bytes(), score: p.score()})
	}
	if a.err != nil {
		return a.err
	}
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	var n, changed int64
	for _, m := range members {
		change, _, err := o.apply(z, m.member, m.score)
		if err != nil {
			return err
		}
		if change == scoreAdded || change == scoreUpdated {
			changed++
		}
		if change == scoreAdded || o.ch && change == scoreUpdated {
			n++
		}
	}
	c.notifyIf(changed > 0, shard.NoteZSet, "zadd", c.key())
	c.Out.Int(n)
	return nil
}

// geoaddOptions takes the options; the first argument that is none of them is the first longitude.
func geoaddOptions(a *arguments) (o zaddOptions) {
	for {
		switch {
		case a.token("NX"):
			o.nx = true
		case a.token("XX"):
			o.xx = true
		case a.token("CH"):
			o.ch = true
		default:
			return o
		}
	}
}

// GEODIST key member1 member2 [M | KM | FT | MI]
func geodist(c *Call) error {
	a := c.args(1)
	from, to, unit := a.bytes(), a.bytes(), 1.0
	switch len(a.rest) {
	case 0:
	case 1:
		unit = a.unit()
	default:
		a.fail(resp.ErrSyntax)
	}
	if a.err != nil {
		return a.err
	}
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	p, exists, err := placeOfMember(z, from)
	if err != nil {
		return err
	}
	q, both, err := placeOfMember(z, to)
	if err != nil {
		return err
	}
	if !exists || !both {
		c.Out.Null()
		return nil
	}
	replyDistance(c.Out, p.distance(q)/unit)
	return nil
}

// placeOfMember looks up where a member is.
func placeOfMember(z shard.ZSet, member []byte) (p place, ok bool, err error) {
	score, ok, err := z.Score(member)
	if !ok || err != nil {
		return place{}, false, err
	}
	return placeOf(score), true, nil
}

// replyDistance writes a distance, in RESP3 too as a string.
func replyDistance(out *resp.Writer, distance float64) {
	var digits [32]byte
	out.Bulk(strconv.AppendFloat(digits[:0], distance, 'f', 4, 64))
}

// replyPlace writes a longitude and a latitude.
func replyPlace(out *resp.Writer, p place) {
	out.Array(2)
	replyDegrees(out, p.longitude)
	replyDegrees(out, p.latitude)
}

// replyDegrees writes a coordinate with up to 17 digits behind the point, which is more than a double has. RESP3 has no
// other way to say so than the bytes themselves.
func replyDegrees(out *resp.Writer, degrees float64) {
	var room [64]byte
	text := trimFraction(strconv.AppendFloat(room[:0], degrees, 'f', 17, 64))
	if out.Proto() == 2 {
		out.Bulk(text)
		return
	}
	out.Raw([]byte("," + string(text) + "\r\n"))
}

// trimFraction cuts the zeros at the end of a number with a point.
func trimFraction(text []byte) []byte {
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	if string(text) == "-0" {
		return text[1:]
	}
	return text
}

// GEOHASH key member [member ...]
func geohash(c *Call) error {
	return eachPlace(c, c.Out.Null, func(p place) { c.Out.BulkString(p.geohash()) })
}

// GEOPOS key member [member ...]
func geopos(c *Call) error {
	return eachPlace(c, c.Out.NullArray, func(p place) { replyPlace(c.Out, p) })
}

// eachPlace replies for every member whose place is asked for.
func eachPlace(c *Call, missing func(), reply func(place)) error {
	z, err := c.DB().ZSet(c.key())
	if err != nil {
		return err
	}
	members := c.args(1).all()
	c.Out.Array(len(members))
	for _, member := range members {
		p, ok, err := placeOfMember(z, member)
		if err != nil {
			return err
		}
		if ok {
			reply(p)
		} else {
			missing()
		}
	}
	return nil
}

// geoAround is what a command's name says about the center of its search.
type geoAround uint8

const (
	aroundAny geoAround = iota // the options decide, also on the shape
	aroundPlace
	aroundMember
)

// geoForm is what a command's name says about its search.
type geoForm struct {
	around      geoAround
	storeOption bool // it has the options STORE and STOREDIST, each with a key
	destination bool // it stores in its first key, and has an option STOREDIST
}

// geoQuery is one search.
type geoQuery struct {
	form   geoForm
	source shard.ZSet
	exists bool
	shape  shape

	centered, fromMember, shaped  bool // FROMMEMBER or FROMLONLAT, and BYRADIUS or BYBOX, were given
	withDist, withHash, withCoord bool
	sorted, descending            bool
	count                         int64 // 0 for all
	any                           bool

	store     bool
	storeKey  []byte
	storeDist bool
}

// Searches:
// GEORADIUS key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]
// [STORE key] [STOREDIST key], GEORADIUSBYMEMBER key member radius unit and the same options,
// GEORADIUS_RO and GEORADIUSBYMEMBER_RO without the last two,
// GEOSEARCH key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius unit | BYBOX width height unit>
// [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH], GEOSEARCHSTORE destination source …
func geoSearch(form geoForm) Handler {
	return func(c *Call) error {
		a := c.args(0)
		q := geoQuery{form: form}
		if form.destination {
			q.store, q.storeKey = true, a.bytes()
		}
		if err := q.open(c.DB(), a.bytes()); err != nil {
			return err
		}
		if err := q.parse(c, a); err != nil {
			return err
		}
		hits, err := q.search()
		if err != nil {
			return err
		}
		if q.store {
			return storeScored(c, q.storeKey, q.scores(hits), q.event())
		}
		q.reply(c.Out, hits)
		return nil
	}
}

// event is the keyspace event of storing what was found.
func (q *geoQuery) event() string {
	if q.form.destination {
		return "geosearchstore"
	}
	return "georadiusstore"
}

func (q *geoQuery) open(db shard.DB, key []byte) error {
	z, err := db.ZSet(key)
	if err != nil {
		return err
	}
	n, err := z.Len()
	q.source, q.exists = z, n > 0
	return err
}

// parse parses what stands behind the source and checks what can't go together. The first error from the left counts, also
// if it is about a member.
func (q *geoQuery) parse(c *Call, a *arguments) error {
	switch {
	case q.form.around == aroundPlace:
		q.shape.center = a.place()
		q.circle(a)
	case q.form.around == aroundMember && q.exists:
		if err := q.member(a); err != nil {
			return err
		}
		q.circle(a)
	case q.form.around == aroundMember:
		a.take(3) // there is nothing to find, so Redis does not look at them
	}
	for a.more() {
		if err := q.option(a); err != nil {
			return err
		}
	}
	switch fromOptions := q.form.around == aroundAny; {
	case a.err != nil:
		return a.err
	case q.store && (q.withDist || q.withHash || q.withCoord) && q.form.destination:
		return resp.ErrGeoStoreWith("GEOSEARCHSTORE")
	case q.store && (q.withDist || q.withHash || q.withCoord):
		return resp.ErrGeoStoreWith("STORE option in GEORADIUS")
	case fromOptions && !q.centered:
		return resp.ErrGeoCenter(c.Args[0])
	case fromOptions && !q.shaped:
		return resp.ErrGeoShape(c.Args[0])
	case q.any && q.count == 0:
		return resp.ErrGeoAnyNeedsCount
	}
	// The closest ones are meant by a count, unless any will do.
	q.sorted = q.sorted || q.count > 0 && !q.any
	return nil
}

// member takes a member of the source, which becomes the center.
func (q *geoQuery) member(a *arguments) error {
	p, ok, err := placeOfMember(q.source, a.bytes())
	if err != nil {
		return err
	}
	if !ok {
		a.fail(resp.ErrGeoMember)
	}
	q.shape.center = p
	return nil
}

// circle takes "radius unit".
func (q *geoQuery) circle(a *arguments) {
	q.shape.box = false
	if q.shape.radius = a.float(resp.ErrGeoRadius); q.shape.radius < 0 {
		a.fail(resp.ErrGeoRadiusNegative)
	}
	q.shape.unit = a.unit()
}

// rectangle takes "width height unit".
func (q *geoQuery) rectangle(a *arguments) {
	q.shape.box = true
	q.shape.width, q.shape.height = a.float(resp.ErrGeoWidth), a.float(resp.ErrGeoHeight)
	if q.shape.width < 0 || q.shape.height < 0 {
		a.fail(resp.ErrGeoBoxNegative)
	}
	q.shape.unit = a.unit()
}

// option takes one option. Its error is operational; a client's is in the arguments.
func (q *geoQuery) option(a *arguments) error {
	behind := len(a.rest) - 1
	switch {
	case a.token("WITHDIST"):
		q.withDist = true
	case a.token("WITHHASH"):
		q.withHash = true
	case a.token("WITHCOORD"):
		q.withCoord = true
	case a.token("ANY"):
		q.any = true
	case a.token("ASC"):
		q.sorted, q.descending = true, false
	case a.token("DESC"):
		q.sorted, q.descending = true, true
	case behind >= 1 && a.token("COUNT"):
		if q.count = a.integer(); q.count <= 0 {
			a.fail(resp.ErrGeoCount)
		}
	case q.form.storeOption && behind >= 1 && a.token("STORE"):
		q.store, q.storeKey, q.storeDist = true, a.bytes(), false
	case q.form.storeOption && behind >= 1 && a.token("STOREDIST"):
		q.store, q.storeKey, q.storeDist = true, a.bytes(), true
	case q.form.destination && a.token("STOREDIST"):
		q.storeDist = true
	case q.form.around == aroundAny:
		return q.geometry(a, behind)
	default:
		a.fail(resp.ErrSyntax)
	}
	return nil
}

// geometry takes one option of GEOSEARCH on the center or the shape.
func (q *geoQuery) geometry(a *arguments, behind int) error {
	fromPlace, fromMember := q.centered && !q.fromMember, q.fromMember
	switch {
	case behind >= 1 && !fromPlace && a.token("FROMMEMBER"):
		q.centered, q.fromMember = true, true
		if !q.exists {
			a.bytes() // it can't be looked up
			return nil
		}
		return q.member(a)
	case behind >= 2 && !fromMember && a.token("FROMLONLAT"):
		q.centered = true
		q.shape.center = a.place()
	case behind >= 2 && !q.shape.box && a.token("BYRADIUS"):
		q.shaped = true
		q.circle(a)
	case behind >= 3 && (q.shape.box || !q.shaped) && a.token("BYBOX"):
		q.shaped = true
		q.rectangle(a)
	default:
		a.fail(resp.ErrSyntax)
	}
	return nil
}

// geoHit is a member that was found.
type geoHit struct {
	member []byte
	score  float64
	at     place
	metres float64 // from the center
}

// search finds the members inside the shape: in order, and no more than the count. It reads the scores of the cells that
// cover the shape, and no others.
func (q *geoQuery) search() (hits []geoHit, err error) {
	if !q.exists {
		return nil, nil
	}
	var members memberList
	enough := func() bool { return q.any && int64(len(hits)) >= q.count }
	for _, cell := range q.shape.cells() {
		low, high := cell.scores()
		scores := shard.ScoreRange{Min: low, Max: high, MaxEx: true}
		err := q.source.RangeByScore(scores, false, func(member []byte, score float64) bool {
			at := placeOf(score)
			if metres, inside := q.shape.distance(at); inside {
				members.add(member)
				hits = append(hits, geoHit{score: score, at: at, metres: metres})
			}
			return !enough()
		})
		if err != nil {
			return nil, err
		}
		if enough() {
			break
		}
	}
	for i := range hits {
		hits[i].member = members.members[i]
	}
	if q.sorted {
		slices.SortStableFunc(hits, func(a, b geoHit) int {
			if q.descending {
				a, b = b, a
			}
			return cmp.Compare(a.metres, b.metres)
		})
	}
	if q.count > 0 {
		hits = hits[:min(int64(len(hits)), q.count)]
	}
	return hits, nil
}

// scores are what STORE or STOREDIST stores of the hits.
func (q *geoQuery) scores(hits []geoHit) []scoredMember {
	list := make([]scoredMember, len(hits))
	for i, hit := range hits {
		list[i] = scoredMember{hit.member, hit.score}
		if q.storeDist {
			list[i].score = hit.metres / q.shape.unit
		}
	}
	return list
}

// reply writes the hits: each a member, or an array of it and what else is asked for.
func (q *geoQuery) reply(out *resp.Writer, hits []geoHit) {
	parts := 1 + oneIf(q.withDist) + oneIf(q.withHash) + oneIf(q.withCoord)
	out.Array(len(hits))
	for _, hit := range hits {
		if parts > 1 {
			out.Array(int(parts))
		}
		out.Bulk(hit.member)
		if q.withDist {
			replyDistance(out, hit.metres/q.shape.unit)
		}
		if q.withHash {
			out.Int(int64(hit.score))
		}
		if q.withCoord {
			replyPlace(out, hit.at)
		}
	}
}
