package commands

import (
	"testing"

	"codeq/shard"
)

// TestShards holds the shards that a call is planned to need against those that it should.
func TestShards(t *testing.T) {
	s := startServer(t)
	ss := s.client().session()
	home := func(id string) int { return s.router.Home([]byte(id)) }
	k2 := s.keyOn(2)
	for _, test := range []struct {
		call string
		want shard.Mask
	}{
		{"PING", shard.Mask{}},
		{"SELECT 3", shard.Mask{}},
		{"GET " + k2, shard.MaskOf(2)},
		{"get {" + k2 + "}:x", shard.MaskOf(2)},
		{"WATCH " + k2 + " " + s.keyOn(0) + " " + s.keyOn(3), shard.MaskOf(0, 2, 3)},
		{"COPYTO " + k2 + " " + s.keyOn(1), shard.MaskOf(2)},
		{"FLUSHDB", s.store.All()},
		{"HSET codeq:tasks one v", shard.MaskOf(home("one"))},
		{"HLEN codeq:tasks", s.store.All()},
		{"GET codeq:lease:one", shard.MaskOf(home("one"))},
		{"EVAL return 0", shard.Mask{}},
		{"EVAL return 1 " + k2, shard.MaskOf(2)},
		{"EVAL return 2 " + k2 + " " + s.keyOn(1) + " " + s.keyOn(0), shard.MaskOf(1, 2)},
		{"EVAL return 9 " + k2, shard.Mask{}},
	} {
		args := batch(test.call)[0]
		cmd, _ := s.table.Resolve(args)
		var got shard.Mask
		if err := ss.addShards(&got, cmd, args); err != nil || got != test.want {
			t.Errorf("%s: got %b, %v, want %b", test.call, got[0], err, test.want[0])
		}
	}
}

// TestPlacerAgrees holds where the store puts a key against where the router says.
func TestPlacerAgrees(t *testing.T) {
	s := startServer(t)
	p := Placer(s.router)
	for _, test := range []struct {
		key  string
		want shard.Placement
	}{
		{s.keyOn(3), shard.Placement{Shard: 3}},
		{"codeq:tasks", shard.Placement{Partitioned: true, Kind: shard.KindHash}},
		{"codeq:results", shard.Placement{Partitioned: true, Kind: shard.KindHash}},
		{"codeq:tasks:ttl", shard.Placement{Partitioned: true, Kind: shard.KindZSet}},
	} {
		if got, err := p.Place(0, []byte(test.key)); err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", test.key, got, err, test.want)
		}
	}
}
