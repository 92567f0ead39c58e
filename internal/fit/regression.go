package fit

import (
	"math"
	"slices"
	"time"

	"github.com/aclements/go-moremath/stats"
)

// regression is least squares of the logarithm of what the same work costs on what setups
// add: each of their words has one factor, whatever it stands beside, and all trials have
// one variance. Setups that were tried on top of each other give it as many factors as
// there are setups, and what it says of two is the difference of their means then; others,
// such as the parts of a bundle that failed, tell of a word several times. Nodes have a
// factor each: what is compared is compared on one node. A machine is faster and slower for
// minutes: trials that were made soon after each other have that in common, and tell more of
// each other than of those long before (generalized least squares, Aitken 1936). The last factor
// is what of the machine's pace the application feels.
type regression struct {
	words []string // the columns after the first, which all trials have
	nodes []string // the columns after those, without the first node: blocks
	// normal is the matrix of the normal equations, and moment their right side.
	normal [][]float64
	moment []float64
	// squares are those of the residuals, and freedom their degrees of freedom.
	squares, freedom float64
}

// costPoint is a setup and the logarithm of what the work cost with it.
type costPoint struct {
	setup Setup
	node  string
	log   float64
	// pace is the logarithm of how slow the machine was meanwhile.
	pace float64
	// collecting is the share of the cost that collections took.
	collecting float64
	// at is when it was made; where that is zero it has nothing in common with the others.
	at time.Time
	// limited says that the heap was smaller than with ample memory, for it follows the limit.
	limited bool
}

// heapOfLimit is the word that a trial has besides those of its setup where its heap is limited:
// what such a heap costs is not the levers'.
const heapOfLimit = "a heap that follows the limit"

func (p costPoint) words() []string {
	words := wordsOf(p.setup)
	if p.limited {
		words = append(words, heapOfLimit)
	}
	return words
}

// withoutCollections is what the work cost beside them, and the setup without what they cost by.
func (p costPoint) withoutCollections() costPoint {
	p.setup, p.log = p.setup.withoutHeap(), p.log+math.Log1p(-min(p.collecting, mostCollecting))
	return p
}

func regress(points []costPoint) regression {
	var r regression
	for _, p := range points {
		for _, w := range p.words() {
			if !slices.Contains(r.words, w) {
				r.words = append(r.words, w)
			}
		}
		if p.node != points[0].node && !slices.Contains(r.nodes, p.node) {
			r.nodes = append(r.nodes, p.node)
		}
	}
	n := 2 + len(r.words) + len(r.nodes)
	r.moment = make([]float64, n)
	for range n {
		r.normal = append(r.normal, make([]float64, n))
	}
	var rows [][]float64
	for _, p := range points {
		rows = append(rows, append(r.block(p), p.log))
	}
	apartFromDrift(rows, points)
	rows = append(rows, r.usuallyFelt())
	for _, row := range rows {
		for i := range n {
			r.moment[i] += row[i] * row[n]
			for j := range n {
				r.normal[i][j] += row[i] * row[j]
			}
		}
	}
	factors, rank, _ := solve(r.normal, r.moment)
	for _, row := range rows {
		off := row[n] - dot(row[:n], factors)
		r.squares += off * off
	}
	r.freedom = float64(len(rows) - rank)
	return r
}

const (
	// usualFeeling is how much of the machine's pace an application is taken to feel before trials
	// tell, and feelingSpread its standard deviation: the demo service feels 0.9 of it, Tomcat and
	// a Lucene index hardly any (docs/fit-theory.md).
	usualFeeling, feelingSpread = 0.7, 0.4
)

// usuallyFelt is what is taken for known of the last factor, as the row of a trial that told it.
func (r regression) usuallyFelt() []float64 {
	n, weight := len(r.normal), costSpread/feelingSpread
	row := make([]float64, n+1)
	row[n-1], row[n] = weight, weight*usualFeeling
	return row
}

const (
	// driftVariance is the variance of the machine's drift, in units of that by which trials
	// at one moment differ, and driftTime after what time two have e times less of it in common.
	// By 79 costs of the demo service over the pace of the machine, within five hours, these
	// are as likely as the likeliest (docs/fit-theory.md).
	driftVariance = 2
	driftTime     = time.Hour
)

// shared is the covariance of two trials for the drift of their machine.
func (p costPoint) shared(o costPoint) float64 {
	if p.at.IsZero() || o.at.IsZero() || p.node != o.node {
		return 0
	}
	return driftVariance * math.Exp(-p.at.Sub(o.at).Abs().Seconds()/driftTime.Seconds())
}

// apartFromDrift takes from the row of each trial what the drift of the machine in those before
// it foretells, and leaves rows of one variance: forward substitution by the Cholesky factor of
// their covariances.
func apartFromDrift(rows [][]float64, points []costPoint) {
	factor := make([][]float64, len(points))
	for i, p := range points {
		factor[i] = make([]float64, i+1)
		own := 1 + p.shared(p)
		for k := range i {
			f := p.shared(points[k])
			for j := range k {
				f -= factor[i][j] * factor[k][j]
			}
			f /= factor[k][k]
			factor[i][k], own = f, own-f*f
			for c := range rows[i] {
				rows[i][c] -= f * rows[k][c]
			}
		}
		factor[i][i] = math.Sqrt(own)
		for c := range rows[i] {
			rows[i][c] /= factor[i][i]
		}
	}
}

// wordsOf is all that a setup adds.
func wordsOf(s Setup) []string {
	words := slices.Concat(s.Options, s.Env)
	if s.Jar != "" {
		words = append(words, otherJar)
	}
	if s.NoHugePages {
		words = append(words, noHugePages)
	}
	return words
}

// The words of what is no option or variable.
const otherJar, noHugePages = "-jar", "no huge pages"

// row is the row of words; known is false where no trial had one of them.
func (r regression) row(words []string) (row []float64, known bool) {
	row, known = make([]float64, len(r.normal)), true
	row[0] = 1
	for _, w := range words {
		if i := slices.Index(r.words, w); i >= 0 {
			row[i+1] = 1
		} else {
			known = false
		}
	}
	return row, known
}

// block is the row of a trial: that of its setup, on its node, at its pace.
func (r regression) block(p costPoint) []float64 {
	row, _ := r.row(p.words())
	if i := slices.Index(r.nodes, p.node); i >= 0 {
		row[1+len(r.words)+i] = 1
	}
	row[len(row)-1] = p.pace
	return row
}

// difference is that of the logarithms with one setup and with another, and its variance in
// units of that of one trial; known is false where the trials do not tell.
func (r regression) difference(with, over Setup) (log, variance float64, known bool) {
	row, ok := r.row(wordsOf(with))
	base, also := r.row(wordsOf(over))
	if !ok || !also {
		return 0, 0, false
	}
	for i := range row {
		row[i] -= base[i]
	}
	weights, _, known := solve(r.normal, row)
	return dot(weights, r.moment), math.Max(0, dot(weights, row)), known
}

// deviation is the standard deviation of the logarithms of what the same work costs with the
// same setup, costSpread included, and its degrees of freedom.
func (r regression) deviation() (deviation, freedom float64) {
	freedom = priorFreedom + r.freedom
	return math.Sqrt((priorFreedom*costSpread*costSpread + r.squares) / freedom), freedom
}

// bounds are the lower and the upper bound of what the same work costs with one setup over
// what it costs with another, each of one side with a confidence.
func (r regression) bounds(with, over Setup, confidence float64) (lower, upper float64, known bool) {
	log, variance, known := r.difference(with, over)
	if !known {
		return 0, 0, false
	}
	deviation, freedom := r.deviation()
	off := stats.InvCDF(stats.TDist{V: freedom})(confidence) * deviation * math.Sqrt(variance)
	return math.Exp(log - off), math.Exp(log + off), true
}

// relative is the ratio of costs that is in the middle of its bounds, and these.
func (r regression) relative(with, over Setup) RelativeCost {
	low, high, known := r.bounds(with, over, costConfidence)
	if !known {
		return RelativeCost{}
	}
	return RelativeCost{math.Sqrt(low * high), low, high}
}

// nothing is what counts as zero among sums of a few dozen ones.
const nothing = 1e-9

// solve solves equations with a symmetric matrix that may lack rank: the unknowns that are
// left open are 0 then. It is false where there is no solution.
func solve(matrix [][]float64, right []float64) (x []float64, rank int, ok bool) {
	n := len(right)
	a := make([][]float64, n)
	for i := range a {
		a[i] = append(slices.Clone(matrix[i]), right[i])
	}
	var columns []int // of the pivots, by row
	for column := 0; column < n && rank < n; column++ {
		pivot := rank
		for i := rank; i < n; i++ {
			if math.Abs(a[i][column]) > math.Abs(a[pivot][column]) {
				pivot = i
			}
		}
		if math.Abs(a[pivot][column]) < nothing {
			continue
		}
		a[rank], a[pivot] = a[pivot], a[rank]
		for i := range n {
			if i != rank {
				factor := a[i][column] / a[rank][column]
				for j := column; j <= n; j++ {
					a[i][j] -= factor * a[rank][j]
				}
			}
		}
		columns, rank = append(columns, column), rank+1
	}
	x = make([]float64, n)
	for i, column := range columns {
		x[column] = a[i][n] / a[i][column]
	}
	for i := rank; i < n; i++ {
		if math.Abs(a[i][n]) > nothing*1e3 {
			return x, rank, false
		}
	}
	return x, rank, true
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
