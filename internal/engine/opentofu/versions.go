package opentofu

// Tested returns the versions of OpenTofu with which the adapter is tested, such as "1.12.6", oldest first. The result
// is a new slice and never empty.
func Tested() []string { return []string{"1.6.2", "1.10.10", "1.12.6"} }

// A Defect describes a defect of released versions of OpenTofu that affects the services of paks: one range of
// versions, which includes First and Last, the report of the defect, a summary, and the version to use instead. The
// versions have the form "1.12.6".
type Defect struct {
	// First and Last are the first and the last version of the range with the defect.
	First string `json:"first"`
	Last  string `json:"last"`
	// Issue is the report of the defect, such as "opentofu#4374".
	Issue string `json:"issue"`
	// Summary describes the defect as a clause.
	Summary string `json:"summary"`
	// Fixed is the version without the defect that should be used instead.
	Fixed string `json:"fixed"`
}

// Defects returns the known defects of OpenTofu that affect the services of paks, in the order of their first versions,
// oldest first. A defect that several ranges of versions have is one element per range. The result is a new slice.
func Defects() []Defect {
	const moved = "moving the state of a resource to another provider address can fail"
	return []Defect{
		{First: "1.11.12", Last: "1.11.12", Issue: "opentofu#4374", Summary: moved, Fixed: "1.12.6"},
		{First: "1.12.0", Last: "1.12.4", Issue: "opentofu#4374", Summary: moved, Fixed: "1.12.6"},
	}
}

// Versions returns the range of versions with the defect as text, such as "1.12.0 to 1.12.4", or a single version if
// First and Last are equal.
func (d Defect) Versions() string {
	if d.First == d.Last {
		return d.First
	}
	return d.First + " to " + d.Last
}

// Has reports whether a version of OpenTofu is in the range of versions with the defect, from First to Last including
// both. It returns false if the text is not a version.
func (d Defect) Has(version string) bool {
	isVersion := Compare(version, "0") != 0
	return isVersion && !Older(version, d.First) && !Older(d.Last, version)
}
