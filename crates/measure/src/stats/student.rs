//! Quantiles of the normal and of Student's t distribution: how wide an interval of few values is.

/// The quantile p of the standard normal distribution, 0 < p < 1, by bisection of its distribution
/// function; exact to 1e-7, which is far below what samples say.
pub fn normal_quantile(p: f64) -> f64 {
    bisect(p, normal_cdf)
}

/// The quantile p of Student's t with `freedom` degrees of freedom, 0 < p < 1.
pub fn t_quantile(p: f64, freedom: usize) -> f64 {
    let freedom = freedom.max(1) as f64;
    bisect(p, |t| t_cdf(t, freedom))
}

fn bisect(p: f64, cdf: impl Fn(f64) -> f64) -> f64 {
    let p = p.clamp(1e-12, 1.0 - 1e-12);
    let (mut low, mut high) = (-1.0, 1.0);
    // Tails of few degrees of freedom are long; 2^60 is beyond the one of 1e-12 with one.
    while cdf(low) > p && low > -1e18 {
        low *= 2.0;
    }
    while cdf(high) < p && high < 1e18 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// By t with a number of degrees at which the two no longer differ.
fn normal_cdf(z: f64) -> f64 {
    t_cdf(z, 1e9)
}

/// The chance that Student's t with `freedom` degrees of freedom is at most `t`.
pub fn t_probability(t: f64, freedom: usize) -> f64 {
    t_cdf(t, freedom.max(1) as f64)
}

/// Distribution function of t: one half of the regularized incomplete beta function.
fn t_cdf(t: f64, freedom: f64) -> f64 {
    let x = freedom / (freedom + t * t);
    let tail = 0.5 * incomplete_beta(freedom / 2.0, 0.5, x, t * t / (freedom + t * t));
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The regularized incomplete beta function at x, with y = 1 - x given exactly, by Lentz's
/// continued fraction on the side where it converges quickly.
fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, y, x);
    }
    let log_front = a * ln_of(x, y) + b * ln_of(y, x) + ln_gamma_ratio(a, b);
    log_front.exp() * fraction(a, b, x) / a
}

/// ln x, from 1 - x where x is close to 1.
fn ln_of(x: f64, rest: f64) -> f64 {
    if rest < 0.5 { (-rest).ln_1p() } else { x.ln() }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let bounded = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / bounded(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..=300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / bounded(1.0 + even * d);
        c = bounded(1.0 + even / c);
        result *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / bounded(1.0 + odd * d);
        c = bounded(1.0 + odd / c);
        result *= c * d;
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

/// ln of gamma(a + b) / (gamma(a) gamma(b)).
fn ln_gamma_ratio(a: f64, b: f64) -> f64 {
    if a > 1e6 || b > 1e6 {
        // Differences of large logarithms lose digits; gamma(a + b) / gamma(a) is a^b (1 +
        // b(b-1)/2a).
        let (large, small) = if a > b { (a, b) } else { (b, a) };
        return small * large.ln() + small * (small - 1.0) / (2.0 * large) - ln_gamma(small);
    }
    ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)
}

/// ln gamma(x) for x > 0 by Stirling's series above 10, reached by gamma(x + 1) = x gamma(x).
fn ln_gamma(x: f64) -> f64 {
    let mut shifted = x;
    let mut product = 0.0;
    while shifted < 10.0 {
        product += shifted.ln();
        shifted += 1.0;
    }
    let inverse = 1.0 / shifted;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0));
    let half_ln_tau = 0.5 * std::f64::consts::TAU.ln();
    (shifted - 0.5) * shifted.ln() - shifted + half_ln_tau + series - product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of printed tables.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, freedom, expected) in [
            (0.975, 1, 12.706),
            (0.975, 4, 2.776),
            (0.975, 19, 2.093),
            (0.995, 19, 2.861),
            (0.95, 30, 1.697),
            (0.975, 1000, 1.962),
            (0.025, 19, -2.093),
        ] {
            let t = t_quantile(p, freedom);
            assert!((t - expected).abs() < 6e-4, "{p} {freedom}: {t}");
        }
        for (p, expected) in [(0.975, 1.959_964), (0.5, 0.0), (0.001, -3.090_232)] {
            let z = normal_quantile(p);
            assert!((z - expected).abs() < 1e-5, "{p}: {z}");
        }
    }
}
