// One parameter of every kind that Stan can declare; all of them have proper densities.
parameters {
  real a;
  real<lower=0> positive;
  real<upper=3> below;
  real<lower=-1, upper=2> between;
  real<lower=a> above_another;
  real<offset=1, multiplier=2> scaled;
  vector[2] v;
  row_vector[2] r;
  matrix[3, 2] m;
  matrix<lower=0>[2, 3] positive_matrix;
  vector<lower=[0, 1]'>[2] own_bounds;
  vector<offset=a, multiplier=2>[2] about_another;
  array[2] vector<lower=0, upper=1>[3] shares;
  simplex[3] weights;
  array[2] simplex[3] rows;
  array[2, 2] simplex[2] table;
  ordered[3] ascending;
  positive_ordered[2] positive_ascending;
  array[2] ordered[2] ascending_rows;
  unit_vector[3] direction;
  corr_matrix[2] correlation;
  cov_matrix[2] covariance;
  cholesky_factor_corr[3] correlation_factor;
  cholesky_factor_cov[2] covariance_factor;
}
model {
  a ~ normal(0, 1);
  positive ~ normal(0, 1);
  below ~ normal(0, 1);
  above_another ~ normal(0, 1);
  scaled ~ normal(0, 1);
  v ~ normal(0, 1);
  r ~ normal(0, 1);
  to_vector(m) ~ normal(0, 1);
  to_vector(positive_matrix) ~ normal(0, 1);
  own_bounds ~ normal(0, 3);
  about_another ~ normal(0, 1);
  ascending ~ normal(0, 1);
  positive_ascending ~ normal(0, 1);
  for (i in 1:2) ascending_rows[i] ~ normal(0, 1);
  correlation ~ lkj_corr(2);
  covariance ~ inv_wishart(4, identity_matrix(2));
  correlation_factor ~ lkj_corr_cholesky(2);
  covariance_factor[1] ~ normal(0, 1);
  covariance_factor[2] ~ normal(0, 1);
}
