package lua

import "testing"

// TestMove moves elements within the array, and refuses what does not lie in it.
func TestMove(t *testing.T) {
	for _, c := range []struct {
		from, to, n int
		want        [4]float64 // nothing: it is refused
	}{
		{1, 2, 3, [4]float64{1, 1, 2, 3}},
		{2, 1, 3, [4]float64{2, 3, 4, 4}}, {1, 4, 1, [4]float64{1, 2, 3, 1}}, {3, 3, 2, [4]float64{1, 2, 3, 4}},
		{4, 1, 0, [4]float64{1, 2, 3, 4}}, {1, 2, 4, [4]float64{}}, {2, 1, 4, [4]float64{}}, {0, 1, 1, [4]float64{}}, {1, -1, 1, [4]float64{}},
		{2, 1, -1, [4]float64{}},
	} {
		table := NewArray([]Value{Number(1), Number(2), Number(3), Number(4)})
		moved := table.Move(c.from, c.to, c.n)
		if moved != (c.want != [4]float64{}) {
			t.Errorf("%+v: %v", c, moved)
		}
		for i, want := range c.want {
			if f, _ := table.GetInt(i + 1).Float(); moved && f != want {
				t.Errorf("%+v: element %d is %v", c, i+1, f)
			}
		}
	}
}
