"""Rules as formulas over named features: their language, how they decide, how they are found."""
