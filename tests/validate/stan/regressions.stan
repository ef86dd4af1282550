data {
  int<lower=1> N;
  int<lower=1> P;
  matrix[N, P] X;
  vector[N] y;
  int<lower=1> K;
}
parameters {
  simplex[K] w;
  array[K] vector[P] beta;
  vector<lower=0>[K] sigma;
}
model {
  target += dirichlet_lpdf(w | rep_vector(1.0, K));
  for (k in 1:K) target += normal_lpdf(beta[k] | 0, 5);
  target += lognormal_lpdf(sigma | 0, 1);
  {
    matrix[N, K] eta;
    for (k in 1:K) eta[, k] = X * beta[k];
    for (n in 1:N) {
      vector[K] terms = log(w);
      for (k in 1:K) terms[k] += normal_lpdf(y[n] | eta[n, k], sigma[k]);
      target += log_sum_exp(terms);
    }
  }
}
