"""Labels, forecasts, weights, clusters and features, and the problems that are evaluated."""
