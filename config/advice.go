package config

import "slices"

// advice says which of the known names was probably meant.
func advice(name string, known []string) string {
	best, bestDistance := "", len(name)/3+2
	slices.Sort(known)
	for _, candidate := range known {
		if d := distance(name, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return "docs/configuration.md lists them all"
	}
	return "did you mean " + best + "?"
}

// distance is the Levenshtein distance: how many characters to insert, remove
// or replace to make b of a. It keeps one row of the usual table.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
