package lua

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// The compiler must make what redis-server's makes. Scripts there can dump the code of a function.

// dumper compiles with a real server.
type dumper struct {
	t    *testing.T
	conn *peer.Conn
}

func newDumper(t *testing.T) *dumper {
	t.Helper()
	return &dumper{t, peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)}
}

// eval runs a script with one argument and answers its reply, an error or a string.
func (d *dumper) eval(script, arg string) (reply string, ok bool) {
	d.t.Helper()
	raw, err := d.conn.Do("EVAL", script, "0", arg)
	if err != nil {
		d.t.Fatalf("redis-server: %v", err)
	}
	parsed, err := peer.Parse(raw)
	if err != nil {
		d.t.Fatalf("redis-server: %v", err)
	}
	return parsed.Str, parsed.Kind == '$'
}

// compile answers what the server makes of source text: a function, or the text of an error.
func (d *dumper) compile(src string) (p *Proto, message string) {
	d.t.Helper()
	const script = "local f, e = loadstring(ARGV[1], '@user_script') if not f then return 'error: ' .. e end return string.dump(f)"
	reply, ok := d.eval(script, src)
	if !ok {
		d.t.Fatalf("redis-server: %s", reply)
	}
	if message, failed := strings.CutPrefix(reply, "error: "); failed {
		return nil, message
	}
	u := undumper{[]byte(reply[12:])}
	return u.function(), ""
}

// undumper reads dumped code: of a function of Lua 5.1, with eight bytes for sizes and numbers and four for integers and instructions.
type undumper struct{ data []byte }

func (u *undumper) take(n int) []byte {
	b := u.data[:n]
	u.data = u.data[n:]
	return b
}

func (u *undumper) byte() int { return int(u.take(1)[0]) }

func (u *undumper) int() int { return int(int32(binary.LittleEndian.Uint32(u.take(4)))) }

func (u *undumper) string() string {
	n := int(binary.LittleEndian.Uint64(u.take(8)))
	if n == 0 {
		return ""
	}
	return string(u.take(n)[:n-1])
}

func (u *undumper) function() *Proto {
	p := &Proto{source: u.string(), line: u.int()}
	u.int()
	u.byte()
	p.params = u.byte()
	vararg := u.byte()
	p.vararg, p.needsArg = vararg&2 != 0, vararg&4 != 0
	p.registers = u.byte()
	code := make([]uint32, u.int())
	for i := range code {
		code[i] = uint32(u.int())
	}
	for range u.int() {
		p.consts = append(p.consts, u.constant())
	}
	for range u.int() {
		p.protos = append(p.protos, u.function())
	}
	for range u.int() {
		p.lines = append(p.lines, int32(u.int()))
	}
	for range u.int() {
		p.locals = append(p.locals, local{u.string(), int32(u.int()), int32(u.int())})
	}
	for range u.int() {
		p.upvalues = append(p.upvalues, u.string())
	}
	for pc := 0; pc < len(code); pc++ {
		i := p.translate(code[pc])
		p.code = append(p.code, i)
		if i.op == opSetList && i.c == 0 {
			pc++
			p.code = append(p.code, instr{b: int32(code[pc])})
		}
	}
	return p
}

func (u *undumper) constant() Value {
	switch u.byte() {
	case 0:
		return Nil
	case 1:
		return Bool(u.byte() != 0)
	case 3:
		return Number(math.Float64frombits(binary.LittleEndian.Uint64(u.take(8))))
	}
	return String(u.string())
}

// dumped are the instructions in the order of the reference implementation's numbers.
var dumped = [...]opcode{
	opMove, opLoadK, opLoadBool, opLoadNil, opGetUpval, opGetGlobal, opGetTable, opSetGlobal, opSetUpval, opSetTable, opNewTable, opSelf,
	opAdd, opSub, opMul, opDiv, opMod, opPow, opUnm, opNot, opLen, opConcat, opJmp, opEq, opLt, opLe, opTest, opTestSet, opCall, opTailCall,
	opReturn, opForLoop, opForPrep, opTForLoop, opSetList, opClose, opClosure, opVararg,
}

// translate makes an instruction of ours.
func (p *Proto) translate(word uint32) instr {
	i := instr{op: dumped[word&63], a: uint8(word >> 6), b: int32(word >> 23), c: uint16(word >> 14 & 511)}
	isText := func(rk int) bool { return rk >= rkConst && p.consts[rk-rkConst].isString() }
	switch i.op {
	case opLoadK, opGetGlobal, opSetGlobal, opClosure:
		i.b, i.c = int32(word>>14), 0
	case opJmp, opForLoop, opForPrep:
		i.b, i.c = int32(word>>14)-1<<17+1, 0
	case opGetTable:
		if isText(int(i.c)) {
			i.op, i.c = opGetField, i.c-rkConst
		}
	case opSetTable:
		if isText(int(i.b)) {
			i.op, i.b = opSetField, i.b-rkConst
		}
	case opSelf:
		i.c -= rkConst
	case opNewTable:
		i.b, i.c = unpacked(i.b), uint16(unpacked(int32(i.c)))
	case opTailCall:
		i.c = 0
	}
	return i
}

// unpacked is a number of three bits and an exponent.
func unpacked(b int32) int32 {
	if b < 8 {
		return b
	}
	return (b&7 + 8) << (b>>3 - 1)
}
