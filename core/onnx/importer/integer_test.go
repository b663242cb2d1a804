package importer

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/trainctl/trainctl/core/onnx/pb"
)

// folded is the list of integers that constant nodes compute under the name v, as the sizes of a reshape would read them.
func folded(t *testing.T, steps ...*pb.NodeProto) ([]int64, error) {
	t.Helper()
	read := &pb.AttributeProto{Name: proto.String("to"), I: proto.Int64(int64(pb.TensorProto_INT64))}
	tr, err := translated(t, append(steps, step("Cast", "v", "y", read))...)
	if err != nil {
		return nil, err
	}
	if len(tr.problems) > 0 {
		return nil, tr.problems
	}
	return tr.values["y"].konst.Ints, nil
}

// Integers are computed exactly, beyond those that float64 has.
func TestIntegersAreExact(t *testing.T) {
	const odd = 1<<53 + 1
	two := func(a, b int64, typ string) []*pb.NodeProto {
		return []*pb.NodeProto{whole("a", a), whole("b", b), step(typ, "a b", "v")}
	}
	for i, c := range []struct {
		steps []*pb.NodeProto
		want  []int64
	}{
		{two(odd, 0, "Add"), []int64{odd}},
		{two(odd, 2*odd, "Sub"), []int64{-odd}},
		{two(odd, 3, "Mul"), []int64{3 * odd}},
		{two(-odd, 2, "Div"), []int64{-odd / 2}},
		{two(-odd, 2, "Mod"), []int64{1}},
		{two(odd, -2, "Mod"), []int64{-1}},
		{[]*pb.NodeProto{whole("a", -odd), whole("b", 2), step("Mod", "a b", "v", &pb.AttributeProto{Name: proto.String("fmod"), I: proto.Int64(1)})}, []int64{-1}},
		{two(odd, odd-1, "Max"), []int64{odd}},
		{two(odd, odd+1, "Clip"), []int64{odd + 1}},
		{[]*pb.NodeProto{whole("a", odd), whole("b", odd-1), {OpType: proto.String("Clip"), Input: []string{"a", "", "b"}, Output: []string{"v"}}}, []int64{odd - 1}},
		{two(math.MaxInt64, odd, "Min"), []int64{odd}},
		{two(odd, odd-1, "Equal"), []int64{0}},
		{two(odd, odd-1, "Greater"), []int64{1}},
		{two(math.MaxInt64, 1, "Add"), []int64{math.MinInt64}},
		{[]*pb.NodeProto{whole("a", odd, -odd), step("Abs", "a", "v")}, []int64{odd, odd}},
		{[]*pb.NodeProto{whole("c", 0, 1), whole("a", odd), whole("b", math.MinInt64), step("Where", "c a b", "v")}, []int64{math.MinInt64, odd}},
		{[]*pb.NodeProto{number("a", odd), number("b", odd+5), number("c", 2), step("Range", "a b c", "v")}, []int64{odd, odd + 2, odd + 4}},
		{[]*pb.NodeProto{number("a", 3), number("b", -2), number("c", -2), step("Range", "a b c", "v")}, []int64{3, 1, -1}},
		{[]*pb.NodeProto{number("a", math.MinInt64), number("b", math.MaxInt64), number("c", math.MaxInt64), step("Range", "a b c", "v")}, []int64{math.MinInt64, -1, math.MaxInt64 - 1}},
		{[]*pb.NodeProto{number("a", 3), number("b", 3), number("c", 1), step("Range", "a b c", "v")}, []int64{}},
		{[]*pb.NodeProto{step("Constant", "", "a", &pb.AttributeProto{Name: proto.String("value_floats"), Floats: []float32{1e30, float32(math.NaN()), -2.7}}),
			step("Cast", "a", "v", &pb.AttributeProto{Name: proto.String("to"), I: proto.Int64(7)})}, []int64{math.MaxInt64, 0, -2}},
	} {
		if got, err := folded(t, c.steps...); err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("case %d is %v, %v; want %v", i, got, err, c.want)
		}
	}
	for want, steps := range map[string][]*pb.NodeProto{
		"divides an integer by 0":         two(1, 0, "Div"),
		"those above 2^53 would be":       {whole("a", odd), step("Floor", "a", "v")},
		"there are 2.147483647e+09 numbe": {number("a", 0), number("b", math.MaxInt32), number("c", 1), step("Range", "a b c", "v")},
		"there are NaN numbers":           {number("a", 0), number("b", 3), number("c", 0), step("Range", "a b c", "v")},
	} {
		if got, err := folded(t, steps...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %q", got, err, want)
		}
	}
}

// number is a constant of a single integer.
func number(name string, v int64) *pb.NodeProto {
	return step("Constant", "", name, &pb.AttributeProto{Name: proto.String("value_int"), I: proto.Int64(v)})
}

// What has no elements costs little, however large its other dimensions are.
func TestEmptyShapesCostLittle(t *testing.T) {
	const large = math.MaxInt32 / 8
	axis := func(n int64) *pb.AttributeProto {
		return &pb.AttributeProto{Name: proto.String("axis"), I: proto.Int64(n)}
	}
	steps := []*pb.NodeProto{whole("s", large, 1, 0), step("ConstantOfShape", "s", "e"), whole("i", 0, 1, 0), whole("parts", 1, 2)}
	all := ""
	for i := range 1000 {
		v := fmt.Sprint(i)
		steps = append(steps,
			step("Concat", "e e", "joined"+v, axis(1)),
			step("Gather", "joined"+v+" i", "taken"+v, axis(1)),
			step("Split", "taken"+v+" parts", "low"+v+" high"+v, axis(1)),
			step("Add", "high"+v+" low"+v, "sum"+v),
			step("Transpose", "sum"+v, "turned"+v),
		)
		all += " turned" + v
	}
	tr, err := translated(t, append(steps, step("Concat", all, "whole", axis(0)), step("Shape", "whole", "y"))...)
	if err != nil || len(tr.problems) > 0 {
		t.Fatal(err, tr.problems)
	}
	if spent := leastWork - tr.work; spent < 5000 || spent > 20_000 {
		t.Errorf("%d elements were moved", spent)
	}
	if got := fmt.Sprint(tr.values["y"].konst.Ints); got != fmt.Sprint([]int64{0, 2, large}) {
		t.Errorf("the shape of the result is %s", got)
	}
}
