data {
  int<lower=1> N;
  vector[N] y;
  int<lower=1> K;
}
parameters {
  array[K] simplex[K] A;
  vector[K] mu;
  real<lower=0> sigma;
}
model {
  for (k in 1:K) target += dirichlet_lpdf(A[k] | rep_vector(1.5, K));
  target += normal_lpdf(mu | 0, 3);
  target += lognormal_lpdf(sigma | 0, 1);
  {
    vector[K] forward = rep_vector(-log(K), K);
    for (k in 1:K) forward[k] += normal_lpdf(y[1] | mu[k], sigma);
    for (n in 2:N) {
      vector[K] next;
      for (j in 1:K) {
        vector[K] terms;
        for (i in 1:K) terms[i] = forward[i] + log(A[i, j]);
        next[j] = log_sum_exp(terms) + normal_lpdf(y[n] | mu[j], sigma);
      }
      forward = next;
    }
    target += log_sum_exp(forward);
  }
}
