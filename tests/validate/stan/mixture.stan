data {
  int<lower=1> N;
  vector[N] y;
  int<lower=1> K;
}
parameters {
  simplex[K] theta;
  vector[K] mu;
  vector<lower=0>[K] sigma;
}
model {
  target += dirichlet_lpdf(theta | rep_vector(2.0, K));
  target += normal_lpdf(mu | 3, 5);
  target += lognormal_lpdf(sigma | 0, 0.5);
  for (n in 1:N) {
    vector[K] terms = log(theta);
    for (k in 1:K) terms[k] += normal_lpdf(y[n] | mu[k], sigma[k]);
    target += log_sum_exp(terms);
  }
}
generated quantities {
  real widest = max(sigma);
  real replicate = normal_rng(mu[1], sigma[1]);
}
