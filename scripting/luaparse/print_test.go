package luaparse

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// printer writes a tree as text: `x#1` is the first local variable that was declared, with a `*` where it is declared if it is captured;
// `x` is a global one. With lines each node is followed by `@` and its line.
type printer struct {
	lines   bool
	locals  []*Local
	unknown bool // something has no line, or a local variable is used that was not declared
}

func show(src string, lines bool) string {
	main, err := Parse(src, "c", 0)
	if err != nil {
		return err.Error()
	}
	p := printer{lines: lines}
	text := p.block(main.Body)
	if p.unknown {
		return "incomplete: " + text
	}
	return text
}

func (p *printer) at(lines ...int) string {
	text := ""
	for _, line := range lines {
		p.unknown = p.unknown || line < 1
		text += "@" + strconv.Itoa(line)
	}
	if !p.lines {
		return ""
	}
	return text
}

func (p *printer) declare(locals ...*Local) string {
	names := make([]string, len(locals))
	for i, local := range locals {
		p.locals = append(p.locals, local)
		names[i] = p.local(local)
		if local.Captured {
			names[i] += "*"
		}
	}
	return strings.Join(names, ", ")
}

func (p *printer) local(local *Local) string {
	i := slices.Index(p.locals, local)
	p.unknown = p.unknown || i < 0
	return fmt.Sprintf("%s#%d", local.Name, i+1)
}

func (p *printer) exprs(list []Expr, separator string) string {
	texts := make([]string, len(list))
	for i, e := range list {
		texts[i] = p.expr(e)
	}
	return strings.Join(texts, separator)
}

func (p *printer) expr(e Expr) string {
	switch x := e.(type) {
	case *Nil:
		return "nil"
	case *True:
		return "true"
	case *False:
		return "false"
	case *Numeral:
		return strconv.FormatFloat(x.Value, 'g', -1, 64)
	case *Text:
		return strconv.Quote(x.Value)
	case *Vararg:
		return "..." + p.at(x.Line)
	case *Name:
		if x.Local != nil {
			return p.local(x.Local)
		}
		return x.Name + p.at(x.Line)
	case *Index:
		return p.expr(x.Object) + "[" + p.expr(x.Key) + "]" + p.at(x.Line)
	case *Call:
		return p.call(x)
	case *Paren:
		return "(" + p.expr(x.Inner) + ")"
	case *Binary:
		return "{" + p.expr(x.Left) + " " + operatorText[x.Op] + " " + p.expr(x.Right) + "}" + p.at(x.Line)
	case *Logical:
		word := " and "
		if x.Or {
			word = " or "
		}
		return "{" + p.expr(x.Left) + word + p.expr(x.Right) + "}"
	case *Concat:
		return "{" + p.exprs(x.Operands, " .. ") + "}" + p.at(x.Line)
	case *Unary:
		return "{" + operatorText[x.Op] + " " + p.expr(x.Operand) + "}" + p.at(x.Line)
	case *Table:
		return p.table(x)
	case *Function:
		return p.function(x)
	}
	return fmt.Sprintf("%T", e)
}

var operatorText = [...]string{"+", "-", "*", "/", "%", "^", "==", "~=", "<", "<=", ">", ">=", "-", "not", "#"}

func (p *printer) call(x *Call) string {
	callee := p.expr(x.Func)
	if x.Method != "" {
		callee += ":" + x.Method + p.at(x.MethodLine)
	}
	return callee + "(" + p.exprs(x.Args, ", ") + ")" + p.at(x.Line)
}

func (p *printer) table(x *Table) string {
	fields := make([]string, len(x.Fields))
	for i, f := range x.Fields {
		if f.Key == nil {
			fields[i] = p.expr(f.Value)
			continue
		}
		fields[i] = p.expr(f.Key) + " = " + p.expr(f.Value) + p.at(f.Line)
	}
	p.at(x.Line)
	return "[" + strings.Join(fields, ", ") + "]"
}

// function tells the parameters, whether `...` is one of them, the local variable `arg`, with a `!` if it is to be filled, and the
// upvalues.
func (p *printer) function(x *Function) string {
	upvalues := make([]string, len(x.Upvalues))
	for i, local := range x.Upvalues {
		upvalues[i] = p.local(local)
	}
	text := "function(" + p.declare(x.Params...)
	if x.Vararg {
		text += " ... " + p.declare(x.Arg)
	}
	if x.NeedsArg {
		text += "!"
	}
	return text + ")[" + strings.Join(upvalues, " ") + "] " + p.block(x.Body) + " end" + p.at(x.Line, x.LastLine)
}

func (p *printer) block(stmts []Stmt) string {
	texts := make([]string, len(stmts))
	for i, s := range stmts {
		texts[i] = p.stmt(s)
	}
	return strings.Join(texts, "; ")
}

func (p *printer) stmt(s Stmt) string {
	switch x := s.(type) {
	case *Assign:
		return p.exprs(x.Targets, ", ") + " = " + p.exprs(x.Values, ", ") + p.at(x.Line)
	case *Declare:
		values := p.exprs(x.Values, ", ") // which do not know the variables
		return "local " + p.declare(x.Locals...) + " = " + values + p.at(x.Line)
	case *DeclareFunction:
		return "local " + p.declare(x.Local) + " " + p.function(x.Function) + p.at(x.Line)
	case *CallStmt:
		return p.call(x.Call) + p.at(x.Line)
	case *Do:
		return "do " + p.block(x.Body) + " end"
	case *While:
		return "while " + p.expr(x.Condition) + " do " + p.block(x.Body) + " end" + p.at(x.Line)
	case *Repeat:
		return "repeat " + p.block(x.Body) + " until " + p.expr(x.Condition) + p.at(x.Line)
	case *If:
		return p.conditional(x)
	case *NumericFor:
		bounds := []Expr{x.Init, x.Limit}
		if x.Step != nil {
			bounds = append(bounds, x.Step)
		}
		text := p.exprs(bounds, ", ")
		text = "for " + p.declare(x.Local) + " = " + text + " do" + p.at(x.DoLine) + " "
		return text + p.block(x.Body) + " end" + p.at(x.Line)
	case *GenericFor:
		values := p.exprs(x.Values, ", ")
		return "for " + p.declare(x.Locals...) + " in " + values + " do " + p.block(x.Body) + " end" + p.at(x.Line)
	case *Return:
		return "return " + p.exprs(x.Values, ", ") + p.at(x.Line)
	case *Break:
		return "break" + p.at(x.Line)
	}
	return fmt.Sprintf("%T", s)
}

func (p *printer) conditional(x *If) string {
	text := ""
	for i, condition := range x.Conditions {
		text += "if " + p.expr(condition) + " then " + p.block(x.Thens[i]) + " else"
	}
	if x.HasElse {
		text += " " + p.block(x.Else)
	}
	return text + " end" + p.at(x.Line)
}
