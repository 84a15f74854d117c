// Package datasets reads data sets as streams of Arrow record batches.
//
// Whatever the source, a record has five columns: sample_id, label, x, status and status_reason (see Schema). Rows come
// in the order of the source, batches are cut at fixed row positions, and memory does not grow with the number of rows.
// Row and row group numbers in errors count from 0.
//
// A source is one file of this package that registers itself; see source.go.
package datasets

// Spec is one entry of `data:` in pipeline.yaml. A zero value means the default.
type Spec struct {
	Source string `yaml:"source" doc:"Where the rows come from: builtin:digits (1797 handwritten digits, 8x8, in the program), idx (the MNIST format) or parquet. Absent where derive is set."`

	Split  string `yaml:"split" enum:"train|valid|test|all" default:"all" doc:"builtin:digits: which fixed, stratified part; train is three fifths, valid and test one fifth each."`
	Images string `yaml:"images" doc:"idx: file with the samples, gzip or not; its first dimension counts the rows. A relative path starts at the folder of pipeline.yaml."`
	Labels string `yaml:"labels" doc:"idx: file with the class numbers, gzip or not. Absent: the rows are unlabelled."`
	Path   string `yaml:"path" doc:"parquet: a file, or a pattern such as data/*.parquet whose files are read in order of their names as one stream."`

	X     string `yaml:"x" default:"x" doc:"parquet: column with the values of a sample, a list of numbers in row-major order. Lists of uint8 stay uint8, all other numbers become float32."`
	Label string `yaml:"label" doc:"parquet: column with the class number, an integer from 0; null means unlabelled. Default: label where there is such a column, else the rows are unlabelled."`
	ID    string `yaml:"id" doc:"parquet: column with a unique name of each row, an integer or text. Default: sample_id where there is such a column, else the row number."`
	Shape []int  `yaml:"shape" doc:"parquet: shape of one sample, such as [28, 28]. Default: one dimension, the length of the first list."`

	NumClasses int      `yaml:"num_classes" min:"1" doc:"Number of classes, which are then named 0, 1, 2 and so on; a label outside is a bad row. Not for builtin:digits, which has ten."`
	ClassNames []string `yaml:"class_names" doc:"Names of the classes in the order of the class numbers, in place of num_classes."`

	Skip    int64     `yaml:"skip" min:"0" doc:"Rows to leave out at the start."`
	Limit   int64     `yaml:"limit" min:"0" doc:"Rows to take at most; 0 takes all."`
	BadRows string    `yaml:"bad_rows" enum:"fail|keep" default:"fail" doc:"A row that cannot be used (null, wrong length, NaN or infinity in x, label out of range, id of an earlier row): fail stops with exit code 4 and names the place; keep leaves the row in every table with status and status_reason, x zeros."`
	Range   []float64 `yaml:"range" doc:"Lowest and highest value that x can have, such as [0, 1]; needed by sets derived from this one. Default: [0, 16] for builtin:digits, [0, 255] where x is uint8."`

	Derive string  `yaml:"derive" enum:"uniform_noise|gaussian_noise|pixel_shuffle|inversion|interpolation" doc:"Make an unlabelled set with the rows, ids and shape of another entry: noise in its range, its values shuffled within each sample, lowest plus highest minus x, or mixtures of two of its rows."`
	Of     string  `yaml:"of" doc:"derive: name of the entry to start from."`
	Std    float64 `yaml:"std" default:"1" min:"0" doc:"gaussian_noise: standard deviation as a share of half the range; the mean is mid-range and values are clamped to the range."`
	Weight float64 `yaml:"weight" default:"0.5" min:"0" max:"1" doc:"interpolation: x becomes weight times its own row plus (1 - weight) times another row of the same block of up to 1024 rows."`
}

// Problem is one finding of Lint.
type Problem struct {
	Key     string // yaml key in the entry, such as "path"
	Message string // what is wrong and what to do
}
