package commands

import "math"

// The geometry of geographic indexes. A place is a cell of a grid over the map, and a member's score is the number of its
// cell. Cells are numbered by taking the bits of the row and of the column in turn, so that the cells inside a larger
// cell have consecutive numbers: to search an area is to search few ranges of scores.
//
// Scores, and the order in which a search meets members, are Redis' own, so the formulas keep its order of operations.

// place is a point on the map, in degrees.
type place struct{ longitude, latitude float64 }

// The edges of the map: those of the Mercator projection, where it is a square.
const (
	maxLongitude = 180.0
	maxLatitude  = 85.05112878
)

// onMap tells whether the place is within the edges.
func (p place) onMap() bool {
	return math.Abs(p.longitude) <= maxLongitude && math.Abs(p.latitude) <= maxLatitude
}

// finestStep is the step of the cells whose numbers are scores: 52 bits, which a float64 holds exactly.
const finestStep = 26

// cell is one of the 4^step cells that a map is divided into: rows count from the south and columns from the west. A
// place on the northern or eastern edge has a row or column one beyond the last.
type cell struct {
	row, column uint32
	step        uint
}

// cellAt returns the cell of a place on a map that reaches up to the latitude.
func cellAt(p place, latitude float64, step uint) cell {
	part := func(x, edge float64) uint32 {
		return uint32((x + edge) / (edge + edge) * float64(uint64(1)<<step))
	}
	return cell{row: part(p.latitude, latitude), column: part(p.longitude, maxLongitude), step: step}
}

// number takes the row's and the column's bits in turn, the row's lowest one last.
func (c cell) number() uint64 { return spread(c.row) | spread(c.column)<<1 }

// cellOf returns the finest cell of a number.
func cellOf(number uint64) cell {
	return cell{row: gather(number), column: gather(number >> 1), step: finestStep}
}

// spread puts a zero before each bit.
func spread(n uint32) uint64 {
	x := uint64(n)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

// gather takes every second bit, the lowest one first.
func gather(x uint64) uint32 {
	x &= 0x5555555555555555
	x = (x | x>>1) & 0x3333333333333333
	x = (x | x>>2) & 0x0f0f0f0f0f0f0f0f
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return uint32(x | x>>16)
}

// area is a rectangle on the map.
type area struct{ west, south, east, north float64 }

// area returns the cell's borders.
func (c cell) area() area {
	edge := func(i uint32, edge float64) float64 {
		return -edge + float64(i)/float64(uint64(1)<<c.step)*(edge+edge)
	}
	return area{
		west: edge(c.column, maxLongitude), south: edge(c.row, maxLatitude),
		east: edge(c.column+1, maxLongitude), north: edge(c.row+1, maxLatitude),
	}
}

// center is the middle of the cell, or the edge of the map where that is beyond.
func (c cell) center() place {
	a := c.area()
	clamp := func(x, edge float64) float64 { return max(min(x, edge), -edge) }
	return place{clamp((a.west+a.east)/2, maxLongitude), clamp((a.south+a.north)/2, maxLatitude)}
}

// neighbour is the cell so many columns to the east and rows to the north. The map has no end: beyond its edges it begins
// again on the other side.
func (c cell) neighbour(east, north int) cell {
	mask := uint32(1)<<c.step - 1
	if east != 0 {
		c.column = (c.column + uint32(east)) & mask
	}
	if north != 0 {
		c.row = (c.row + uint32(north)) & mask
	}
	return c
}

// scores is the range of the scores of all members in the cell; the higher one is not in it.
func (c cell) scores() (low, high float64) {
	finer := 2 * (finestStep - c.step)
	return float64(c.number() << finer), float64((c.number() + 1) << finer)
}

// placeOf returns the place that a score stands for. Sorted sets may have scores that GEOADD did not make; these become
// numbers as they do in C on x86-64.
func placeOf(score float64) place {
	var number uint64
	switch {
	case score < -1<<63:
		number = 1 << 63
	case score < 0:
		number = uint64(int64(score))
	case score < 1<<64:
		number = uint64(score)
	}
	return cellOf(number).center()
}

// scoreOf is the score of a member at the place.
func (p place) score() float64 { return float64(cellAt(p, maxLatitude, finestStep).number()) }

// geohash is the place in the notation of geohash.org, which has another map: it reaches to the poles. Of its eleven
// characters the last one is always 0, since there are only 52 bits.
func (p place) geohash() string {
	const alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"
	number := cellAt(p, 90, finestStep).number()
	text := []byte("00000000000")
	for i := range text[:10] {
		text[i] = alphabet[number>>(47-5*i)&0x1f]
	}
	return string(text)
}

const (
	radiansPerDegree = math.Pi / 180
	earthRadius      = 6372797.560856 // in metres, the quadratic mean
	mercatorMax      = 20037726.37    // in metres, half of the map's side
)

func radians(degrees float64) float64 { return degrees * radiansPerDegree }
func degrees(radians float64) float64 { return radians / radiansPerDegree }

// distance is the length of the way from p to q over the globe, in metres, by the haversine formula.
func (p place) distance(q place) float64 {
	north, south := radians(p.latitude), radians(q.latitude)
	u := math.Sin((south - north) / 2)
	v := math.Sin((radians(q.longitude) - radians(p.longitude)) / 2)
	return 2 * earthRadius * math.Asin(math.Sqrt(u*u+math.Cos(north)*math.Cos(south)*v*v))
}

// shape is what a search looks into: a circle or an upright box around its center.
type shape struct {
	center        place
	box           bool
	radius        float64 // of a circle, in units
	width, height float64 // of a box, in units
	unit          float64 // in metres
}

// distance returns how far from the center a place is, in metres, and whether it is inside the shape.
func (s *shape) distance(p place) (metres float64, inside bool) {
	if s.box {
		// How far the place is to the north is measured along its own meridian, how far to the east along its own parallel.
		up := earthRadius * math.Abs(radians(p.latitude)-radians(s.center.latitude))
		across := p.distance(place{s.center.longitude, p.latitude})
		if up > s.height*s.unit/2 || across > s.width*s.unit/2 {
			return 0, false
		}
		return s.center.distance(p), true
	}
	metres = s.center.distance(p)
	return metres, metres <= s.radius*s.unit
}

// bounds is a rectangle on the map around the shape. Towards the pole the same way spans more degrees, so its east and west
// are those of its edge that is nearer to the pole.
func (s *shape) bounds() area {
	width, height := s.radius*s.unit, s.radius*s.unit
	if s.box {
		width, height = s.unit*(s.width/2), s.unit*(s.height/2)
	}
	up := degrees(height / earthRadius)
	widest := s.center.latitude + up
	if s.center.latitude < 0 {
		widest = s.center.latitude - up
	}
	across := degrees(width / earthRadius / math.Cos(radians(widest)))
	return area{
		west: s.center.longitude - across, south: s.center.latitude - up,
		east: s.center.longitude + across, north: s.center.latitude + up,
	}
}

// step is how fine a cell may be so that it and its eight neighbours cover the shape, as a first guess.
func (s *shape) step() uint {
	reach := s.radius
	if s.box {
		reach = math.Sqrt(s.width/2*(s.width/2) + s.height/2*(s.height/2))
	}
	reach *= s.unit
	if reach == 0 {
		return finestStep
	}
	step := -1 // for most places a cell is then large enough wherever in it the center is
	for ; reach < mercatorMax; reach *= 2 {
		step++
	}
	// Near the poles cells are narrow.
	if latitude := math.Abs(s.center.latitude); latitude > 80 {
		step -= 2
	} else if latitude > 66 {
		step--
	}
	return uint(min(max(step, 1), finestStep))
}

// cells lists the cells to search, in the order in which Redis searches them.
func (s *shape) cells() []cell {
	bounds, step := s.bounds(), s.step()
	middle := cellAt(s.center, maxLatitude, step)
	if step > 1 && !middle.reaches(bounds) {
		step--
		middle = cellAt(s.center, maxLatitude, step)
	}
	inner := middle.area()
	var cells []cell
	for _, to := range [...]struct{ east, north int }{
		{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1},
	} {
		// Neighbours are left out where the middle cell itself goes beyond the bounds.
		useless := to.north < 0 && inner.south < bounds.south || to.north > 0 && inner.north > bounds.north ||
			to.east < 0 && inner.west < bounds.west || to.east > 0 && inner.east > bounds.east
		if step >= 2 && useless {
			continue
		}
		// With four cells in all, the neighbours on both sides are the same one.
		next := middle.neighbour(to.east, to.north)
		if len(cells) == 0 || next != cells[len(cells)-1] {
			cells = append(cells, next)
		}
	}
	return cells
}

// reaches tells whether the cell and its neighbours cover the bounds.
func (c cell) reaches(bounds area) bool {
	north, south := c.neighbour(0, 1).area(), c.neighbour(0, -1).area()
	east, west := c.neighbour(1, 0).area(), c.neighbour(-1, 0).area()
	return !(north.north < bounds.north || south.south > bounds.south || east.east < bounds.east || west.west > bounds.west)
}
