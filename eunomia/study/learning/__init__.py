"""Learning experiments: training, evaluating, distilling and exporting policies on scenarios."""
