package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/outputs"
)

// example is a report such as a run on small digits gives, with names that try to break the page.
func example(t testing.TB) Report {
	r := rand.New(rand.NewPCG(1, 2))
	rep := Report{
		Title: "digits-jem", Subtitle: "A JEM on 8×8 digits, trained for 40 epochs, scored on one in-distribution and three other data sets.",
		Facts: []Fact{
			{"jempipe", "0.1.0", ""}, {"ONNX Runtime", "1.30.0, CPU", "cuda: no device"}, {"Threads", "2", ""}, {"Seed", "20260101", ""},
			{"Config hash", "sha256:9f2c41d07be3", "sha256:9f2c41d07be3a55d6c6c"}, {"Model hash", "sha256:17aa03bd9c1e", ""},
			{"Go", "1.26, linux/amd64", ""}, {"Schema", outputs.SchemaVersion, ""},
		},
		Datasets: []Dataset{
			{Name: "valid", Role: "id", Rows: 1124},
			{Name: "test", Role: "id", Rows: 1124, Unlabelled: 12, Saturated: 210, Ties: 1, NotOK: []StatusCount{{"nan", "pixel 17 of 64 is not a number", 3}, {"wrong_length", "list of 63 values, wanted 64 (shape 8x8)", 1}}},
			{Name: "letters", Role: "ood", Rows: 2000, Unlabelled: 2000, Saturated: 77},
			{Name: "uniform noise", Role: "ood", Rows: 1124, Unlabelled: 1124, Constant: []string{"approximate_mass"}},
			{Name: "<script>alert(1)</script>", Role: "ood", Rows: 1124, Unlabelled: 1124, Saturated: 600, Duplicates: 2},
		},
		ConfigPath: "pipeline.yaml",
		Config:     "name: digits-jem\nseed: 20260101\ndata:\n  train: {source: builtin:digits, split: train}\n  noise: {derive: uniform_noise, of: test} # <b>\n",
		GapAlarm:   5, SampleShape: []int{1, 8, 8}, SampleRange: [2]float64{0, 16},
		TablePaths: map[string]string{"roc": "ood/tables/roc.parquet"},
	}
	rep.Training = trainingRows(r)
	trainingEnd(t, &rep, r)
	calibrationRows(&rep, r)
	oodRows(&rep)
	classRows(&rep, r)
	pictures(t, &rep, r)
	return rep
}

// trainingRows is a run that went wrong at step 2,310 and 2,600 and each time went on from step 2,000 or 2,500.
func trainingRows(r *rand.Rand) []outputs.Training {
	var rows []outputs.Training
	for attempt, part := range [][2]int{{0, 462}, {400, 520}, {500, 900}} {
		for i := part[0]; i < part[1]; i++ {
			row := trainingRow(r, i)
			row.Attempt, row.LR = new(int32(attempt)), row.LR/float64(int(1)<<attempt)
			if attempt < 2 && i > part[1]-20 {
				row.Loss, row.Gap = new(40*float64(i-part[1]+20)), new(-30*float64(i-part[1]+20))
			}
			rows = append(rows, row)
		}
		if last := &rows[len(rows)-1]; attempt == 0 {
			last.Event = new("divergence: the loss is 1.3e+05, its limit (guard.max_loss) 100000; back to step 2000")
		} else if attempt == 1 {
			last.Event = new("collapse: over the last 200 steps data are more likely than samples by 4.1 on average (guard.gap_alarm 3), and the two differ by 0.31 in mean or in share at the bounds (guard.misplaced 0.2): the chains no longer reach what the model calls likely; back to step 2500")
		}
	}
	return rows
}

// trainingEnd is what the model says when it is trained.
func trainingEnd(t testing.TB, rep *Report, r *rand.Rand) {
	for i, set := range []string{outputs.EnergyTrain, outputs.EnergyValid, outputs.EnergyChains} {
		for range 700 {
			rep.Energies = append(rep.Energies, outputs.Energy{Set: set, Energy: new(-8 + 0.4*float64(i) + (1+0.3*float64(i))*r.NormFloat64())})
		}
	}
	rep.Energies = append(rep.Energies, outputs.Energy{Set: outputs.EnergyValid}, outputs.Energy{Set: outputs.EnergyValid, Energy: new(400.0)})
	grid := make([]float32, 90*90)
	for i := range grid {
		row, col := i/90, i%90
		if row%9 < 8 && col%9 < 8 {
			grid[i] = float32(math.Abs(math.Sin(float64(row/9*10+col/9) + float64(row%9*(col%9))/9)))
		}
	}
	img, err := Thumb(grid, []int{90, 90}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	rep.Chains = &Snapshot{Step: 4500, Image: &img, Path: "train/samples/step-004500.png"}
}

func trainingRow(r *rand.Rand, i int) outputs.Training {
	x := float64(i) / 900
	step := int64(i+1) * 5
	ce := 2.3*math.Exp(-6*x) + 0.08 + 0.03*r.NormFloat64()*math.Exp(-x)
	px := 0.8*math.Sin(9*x)*math.Exp(-2*x) + 0.25*r.NormFloat64()
	data := 4*x + 1 + 0.1*r.NormFloat64()
	gap := -px
	if i > 500 && i < 520 {
		gap += 7
	}
	lag := math.Exp(-4 * x)
	row := outputs.Training{Step: step, Epoch: x * 40, LR: 1e-4, Loss: new(ce + px), LossPYX: new(ce), LossPX: new(px), LossReg: new(data * data), EnergyDrop: new(0.3 + 0.1*r.NormFloat64()), FData: new(data),
		FSamples: new(data - gap), Gap: new(gap), GradNorm: new(3*math.Exp(-x) + 0.3*r.Float64()), Accuracy: new(min(1, 1-math.Exp(-7*x)*0.9+0.02*r.NormFloat64())),
		ChainDisplacement: new(0.4 + 0.05*r.NormFloat64()), GapSign: new(math.Sin(9*x) * 0.6), DataMean: new(-0.38 + 0.02*r.NormFloat64()), SampleMean: new(-0.38 + 0.3*lag + 0.02*r.NormFloat64()),
		DataAtBounds: new(0.52), SamplesAtBounds: new(0.52 - 0.4*lag + 0.01*r.NormFloat64())}
	if i%45 == 44 {
		row.ValidAccuracy = new(0.965 - math.Exp(-7*x)*0.85)
	}
	return row
}

func calibrationRows(rep *Report, r *rand.Rand) {
	rep.Recalibration = []outputs.Recalibration{
		{Map: "temperature", Parameter: "temperature", Value: new(1.4213), FitDataset: "valid", N: 1124, NLLBefore: new(0.1612), NLLAfter: new(0.1388)},
		{Map: "conformal", Parameter: "quantile", Value: nil, Reason: new("too_few_rows"), FitDataset: "valid", N: 3},
	}
	for k, m := range []string{outputs.MapUncalibrated, outputs.MapTemperature} {
		over := 0.14 - 0.12*float64(k)
		for b := range 15 {
			lo, hi := float64(b)/15, float64(b+1)/15
			bin := outputs.CalibrationBin{Dataset: "test", Map: m, Scheme: "equal_width", Bin: int32(b), Lo: lo, Hi: hi}
			if b > 3 && b != 6 {
				n := int64(8 * math.Exp(float64(b)*0.34))
				conf := (lo + hi) / 2
				acc := min(1, max(0, conf-over*(1.2-conf)+0.05*r.NormFloat64()*(1.2-conf)))
				half := 1 / math.Sqrt(float64(n)) * 0.8
				bin.Count, bin.MeanConf, bin.Accuracy, bin.Gap = n, &conf, &acc, new(conf-acc)
				bin.CILow, bin.CIHigh = new(max(0, acc-half)), new(min(1, acc+half))
			}
			rep.CalibrationBins = append(rep.CalibrationBins, bin)
		}
		f := 1 - 0.6*float64(k)
		metric := func(name, scope string, v float64, binned bool) {
			row := outputs.CalibrationMetric{Dataset: "test", Map: m, Metric: name, Scope: scope, Value: &v, N: 1108, NDropped: 16}
			if binned {
				row.Scheme, row.NBins, row.Closed, row.Norm = new("equal_width"), new(int32(15)), new("right"), new("l1")
				row.CILow, row.CIHigh = new(v*0.8), new(v*1.3)
			}
			rep.CalibrationMetrics = append(rep.CalibrationMetrics, row)
		}
		metric("accuracy", "top_label", 0.9612, false)
		metric("mean_confidence", "top_label", 0.985-0.02*float64(k), false)
		metric("nll", "all", 0.1702-0.025*float64(k), false)
		metric("brier", "all", 0.0611-0.003*float64(k), false)
		metric("ece", "top_label", 0.0312*f, true)
		metric("mce", "top_label", 0.21+0.05*float64(k), true)
		metric("ece", "classwise", 0.0081*f, true)
		metric("aurc", "all", 0.0042, false)
		rep.CalibrationMetrics = append(rep.CalibrationMetrics, outputs.CalibrationMetric{Dataset: "test", Map: m, Metric: "debiased_l2", Scope: "top_label", Reason: new("too_few_rows")})
	}
	for i := range 400 {
		c := float64(i+1) / 400
		rep.RiskCoverage = append(rep.RiskCoverage, outputs.RiskCoverage{Dataset: "test", RankedBy: "confidence", Point: int32(i), Coverage: c, Risk: new(0.0388 * c * c * c), N: 1108})
	}
}

var exampleSets = []string{"letters", "uniform noise", "<script>alert(1)</script>"}

func oodRows(rep *Report) {
	for i, d := range outputs.Detectors() {
		for j, set := range exampleSets {
			auroc := 0.97 - 0.03*float64(i) - 0.16*float64(j)
			if d == "energy" {
				auroc += 0.01 * float64(j)
			}
			half := 0.012 + 0.01*float64(j)
			row := outputs.OODMetric{IDDataset: "test", OODDataset: set, Detector: d, Metric: outputs.MetricAUROC, Value: &auroc, CILow: new(auroc - half), CIHigh: new(min(1, auroc+half)),
				CIMethod: new("delong_logit"), NID: 1120, NOOD: 2000}
			if i == 5 && j == 1 {
				row.Value, row.CILow, row.CIHigh, row.Reason = nil, nil, nil, new("constant_scores")
			}
			rep.OODMetrics = append(rep.OODMetrics, row)
			for _, p := range []string{outputs.PositiveOOD, outputs.PositiveID} {
				fpr := min(1, 2.2*(1-auroc))
				if p == outputs.PositiveID {
					fpr *= 0.8
				}
				rep.OODMetrics = append(rep.OODMetrics, outputs.OODMetric{IDDataset: "test", OODDataset: set, Detector: d, Metric: outputs.MetricFPR95, PositiveClass: &p, Value: &fpr, NID: 1120, NOOD: 2000})
			}
			rep.OODMetrics = append(rep.OODMetrics, outputs.OODMetric{IDDataset: "test", OODDataset: set, Detector: d, Metric: outputs.MetricTPRAtThreshold, Value: new(auroc - 0.3), CILow: new(auroc - 0.33), CIHigh: new(auroc - 0.27), NID: 1120, NOOD: 2000})
			for k := range 200 {
				fpr := float64(k) / 199
				rep.ROC = append(rep.ROC, outputs.ROC{IDDataset: "test", OODDataset: set, Detector: d, Point: int32(k), FPR: fpr, TPR: math.Pow(fpr, (1-auroc)/auroc)})
			}
		}
		rep.Thresholds = append(rep.Thresholds, outputs.Threshold{Detector: d, IDDataset: "test", AcceptanceTarget: 0.95, Acceptance: new(0.9508), Threshold: new(-4.2 + float64(i)), N: 1120})
	}
	for _, d := range []string{"msp", "energy"} {
		for j, set := range append([]string{"test"}, exampleSets...) {
			role := "ood"
			if j == 0 {
				role = "id"
			}
			for b := range 40 {
				lo := -12 + 0.4*float64(b)
				z := (lo + 8 - 2.4*float64(j%3)) / 1.6
				rep.Histograms = append(rep.Histograms, outputs.Histogram{IDDataset: "test", Dataset: set, Role: role, Detector: d, Bin: int32(b), Lo: lo, Hi: lo + 0.4, Count: int64(180 * math.Exp(-z*z/2))})
			}
		}
	}
}

func classRows(rep *Report, r *rand.Rand) {
	for c := range 10 {
		name := fmt.Sprint(c)
		p := outputs.PerClass{Dataset: "test", Class: int32(c), ClassName: name, N: 110, NPredicted: 112, Accuracy: new(0.9 + 0.1*r.Float64()), Precision: new(0.9 + 0.1*r.Float64()),
			MeanConf: new(0.97), MeanEnergy: new(-8 - r.Float64()), ClasswiseECE: new(0.004 + 0.006*r.Float64())}
		if c == 9 {
			p.N, p.Accuracy, p.MeanConf, p.MeanEnergy = 0, nil, nil, nil
		}
		rep.PerClass = append(rep.PerClass, p)
		for k := range 10 {
			n := int64(0)
			if k == c {
				n = 104
			} else if r.IntN(5) == 0 {
				n = r.Int64N(6)
			}
			rep.Confusion = append(rep.Confusion, outputs.Confusion{Dataset: "test", Label: int32(c), LabelName: name, Pred: int32(k), PredName: fmt.Sprint(k), Count: n})
		}
	}
}

// digit is an 8x8 picture that looks a little like a number.
func digit(c int, r *rand.Rand) []float32 {
	x := make([]float32, 64)
	for i := range x {
		row, col := float64(i/8)-3.5, float64(i%8)-3.5
		ring := math.Abs(math.Hypot(row, col)-2.2-0.2*float64(c%3)) - 0.4
		bar := math.Abs(col*math.Cos(float64(c))+row*math.Sin(float64(c))) - 0.5
		x[i] = float32(max(0, min(16, 16-9*max(0, min(ring+float64(c%2), bar+float64(c%3)-1))+r.NormFloat64())))
	}
	return x
}

func pictures(t testing.TB, rep *Report, r *rand.Rand) {
	for c := range 40 {
		class := int32(c % 10)
		pred := class
		if c == 17 {
			pred = 3
		}
		for _, step := range []int32{0, 100} {
			rep.Samples = append(rep.Samples, outputs.Sample{Chain: int64(c), Step: step, Class: &class, ClassName: new(fmt.Sprint(class)), Pred: &pred, PredName: new(fmt.Sprint(pred)),
				Energy: new(-7 - r.Float64()), Confidence: new(0.9 + 0.1*r.Float64()), X: digit(int(class), r)})
		}
	}
	for g, title := range []string{"Most confident and wrong", "OOD inputs that look most like ID", "ID inputs that look most like OOD"} {
		group := GalleryGroup{Title: title, Note: "The 12 rows with the largest confidence among the errors."}
		for i := range 12 {
			img, err := Thumb(digit(i+g, r), []int{8, 8}, 0, 16)
			if err != nil {
				t.Fatal(err)
			}
			item := GalleryItem{Image: &img, ID: fmt.Sprint(i * 37), Dataset: "test", Label: fmt.Sprint(i % 10), Pred: fmt.Sprint((i + 3) % 10),
				Scores: []Score{{"confidence", 0.9987}, {"energy", -9.1 + float64(i)*0.1}}}
			switch g {
			case 1:
				item.Label, item.Dataset = "", "letters"
			case 2:
				item.Label = item.Pred
			}
			if i == 11 {
				item.Image = nil
			}
			group.Items = append(group.Items, item)
		}
		rep.Gallery = append(rep.Gallery, group)
	}
}
