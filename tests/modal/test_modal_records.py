"""Records, spectra and the simulator: Welch against SciPy, averages against experiment."""

import jax
import numpy as np
import pytest
import scipy.signal

from folt.modal import Structure, read_record, read_spectrum, simulate_record, welch
from folt.modal.cross_spectra import (
    default_segment,
    effective_averages,
    effective_rank,
    gauss_window,
    noise_bandwidth,
)
from folt.modal.simulation import discrete_mode, load_density
from folt.modal.spectrum import record_of

RATE = 16.0
SMALL = Structure(channels=6)


@pytest.fixture(scope="module")
def record():
    return simulate_record(jax.random.key(0), SMALL, rate=RATE, minutes=20)


def known(structure, at, rate):
    """The density that the discrete filters really have, sensor noise included."""
    total = np.full_like(at, structure.unit_shapes().shape[0] * structure.noise)
    zipped = zip(structure.frequency, structure.damping, structure.power, strict=True)
    for f, xi, power in zipped:
        response = scipy.signal.freqz(*discrete_mode(f, xi, rate), at, fs=rate)[1]
        total += np.abs(response) ** 2 * load_density(f, xi, power)
    return total


# The simulator.


def test_the_discrete_mode_is_the_resonance_of_the_model():
    from folt.modal.models.powers import resonance

    at = np.linspace(0.7, 1.1, 50)
    for f, xi, power in zip(SMALL.frequency, SMALL.damping, SMALL.power, strict=True):
        response = scipy.signal.freqz(*discrete_mode(f, xi, 32.0), at, fs=32.0)[1]
        exact = np.abs(response) ** 2 * load_density(f, xi, power)
        model = power * np.asarray(resonance(at, np.array([f]), np.array([xi]), 4)[0])
        np.testing.assert_allclose(exact, model, rtol=0.02)


def test_a_record_has_the_shape_asked_for_and_its_seed():
    first, again, other = (simulate_record(jax.random.key(k), minutes=1).values for k in (1, 1, 2))
    assert first.shape == (1920, 15)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


# Welch.


def test_the_trace_is_the_sum_of_scipys_spectra(record):
    found = welch(record, (0.7, 1.1), segment=60.0, overlap=0.5)
    at, psd = scipy.signal.welch(
        record.values, RATE, nperseg=960, noverlap=480, detrend="linear", axis=0
    )
    inside = (at >= 0.7) & (at <= 1.1)
    np.testing.assert_allclose(found.frequency, at[inside])
    np.testing.assert_allclose(found.psd, psd[inside].sum(axis=1), rtol=1e-10)
    assert found.resolution == pytest.approx(1.5 / 60)
    assert found.channels == 6


def test_overlap_cannot_make_more_averages_than_the_record_has():
    taper = scipy.signal.windows.hann(512, sym=False)
    samples = 512 * 40
    found = []
    for hop in (512, 256, 128, 64):
        found.append(effective_averages(taper, hop, (samples - 512) // hop + 1))
    assert found[0] < found[1] < found[2]
    assert found[0] == pytest.approx(40 / 1.944, rel=1e-3)
    assert min(found[2:]) > 0.97 * 40
    assert max(found) < 40


def test_flat_segments_end_to_end_are_independent():
    assert effective_averages(np.ones(64), 64, 10) == pytest.approx(10.0)


def test_averages_predict_the_scatter_of_a_band():
    """White noise in four channels: the sum over a band varies as ν says; mutant: K does not.

    The variance of 200 sums is within a factor of 1 ± 4·sqrt(2/199), false alarm below 1e-4.
    """
    rng = np.random.default_rng(0)
    sums, expected = [], 0.0
    for _ in range(200):
        noise = record_of(rng.normal(size=(1200, 4)), 10.0)
        found = welch(noise, (1.0, 3.0), segment=10.0)
        sums.append(found.psd.sum())
        assert found.averages is not None
        expected += np.sum(1 / found.averages) / 200
    scatter = np.var(sums) / np.mean(sums) ** 2 * len(found.psd) ** 2
    band = 4 * np.sqrt(2 / 199)
    assert abs(scatter / expected - 1) < band + 0.05  # the rank of four channels is estimated
    segments = (1200 - 100) // 25 + 1
    assert abs(scatter / (len(found.psd) / (4 * segments)) - 1) > 1.0


def test_rank_counts_the_sources_of_motion():
    """One source counts once however many sensors see it; independent noise as many as channels."""
    rng = np.random.default_rng(1)

    def mean_rank(amplitudes):
        matrices = np.einsum("kfc,kfd->fcd", amplitudes, amplitudes.conj()) / len(amplitudes)
        return effective_rank(matrices, len(amplitudes)).mean()

    def gaussian(*shape):
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    shape = rng.normal(size=5)
    assert mean_rank(gaussian(30, 60, 1) * shape) == pytest.approx(1.0)
    assert mean_rank(gaussian(30, 60, 5)) == pytest.approx(5.0, rel=0.1)
    two = np.linalg.qr(rng.normal(size=(5, 2)))[0]
    assert mean_rank(gaussian(30, 60, 2) @ two.T) == pytest.approx(2.0, rel=0.1)


def test_the_gauss_window_integrates_the_kernel():
    taper = scipy.signal.windows.hann(400, sym=False)
    offsets, weights = gauss_window(taper, 20.0)
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(offsets, -offsets[::-1], atol=1e-12)
    at = np.linspace(-0.2, 0.2, 4001)
    kernel = np.abs(np.exp(-2j * np.pi * at[:, None] * np.arange(400) / 20.0) @ taper) ** 2
    kernel /= kernel.sum()
    for width in (0.05, 0.1):
        peak = 1 / (1 + (at / width) ** 2)
        quadrature = weights @ (1 / (1 + (offsets / width) ** 2))
        assert quadrature == pytest.approx(kernel @ peak, rel=0.01)
    assert noise_bandwidth(taper) == pytest.approx(1.5)


def test_seen_through_the_window_the_spectrum_is_unbiased():
    """The mean of 25 records over the known density, averaged near the peaks.

    Through the window it is one within 4 standard errors (false alarm 1e-4); without it the
    sharpest peak is missed by more.
    """
    ratios, bare = [], []
    for k in range(25):
        one = simulate_record(jax.random.key(100 + k), SMALL, rate=RATE, minutes=10)
        found = welch(one, (0.7, 1.0), segment=75.0)
        offsets, weights = found.window
        at = found.frequency[:, None] + offsets
        mean = known(SMALL, at.ravel(), RATE).reshape(at.shape) @ weights
        peak = np.argmax(mean)
        ratios.append((found.psd / mean).mean())
        bare.append(found.psd[peak] / known(SMALL, found.frequency[peak : peak + 1], RATE)[0])
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 4 * error
    assert np.mean(bare) < 1 - 4 * np.std(bare) / np.sqrt(len(bare))


def test_the_default_segment_resolves_one_percent_or_leaves_eight(record):
    long = record_of(np.random.default_rng(0).normal(size=(36_000, 1)), 10.0)
    assert default_segment(long, (0.8, 1.0)) == pytest.approx(1.5 / 0.009)
    assert default_segment(record, (0.7, 1.1)) == pytest.approx(150.0)


@pytest.mark.parametrize(
    ("band", "options", "message"),
    [
        ((0.7, 9.0), {}, "half the sampling rate, 8 Hz"),
        ((1.1, 0.7), {}, "LOW < HIGH"),
        ((0.7, 1.1), {"segment": 5000.0}, "does not fit"),
        ((0.7, 1.1), {"overlap": 1.0}, "overlap"),
        ((0.71, 0.72), {"segment": 10.0}, "no frequency lies"),
    ],
)
def test_welch_names_what_is_wrong(record, band, options, message):
    with pytest.raises(ValueError, match=message):
        welch(record, band, **options)


# Files.


def test_records_come_from_csv_and_numpy_alike(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 3))
    np.savetxt(tmp_path / "plain.csv", values, delimiter=",", fmt="%.17g")
    np.savetxt(
        tmp_path / "named.csv", values, delimiter=",", header="a,b,c", comments="", fmt="%.17g"
    )
    timed = np.column_stack([np.arange(50) / 20.0, values])
    np.savetxt(
        tmp_path / "timed.csv", timed, delimiter=",", header="time,a,b,c", comments="", fmt="%.17g"
    )
    np.save(tmp_path / "array.npy", values)
    np.savez(tmp_path / "array.npz", values=values)
    for name, rate in (
        ("plain.csv", 20),
        ("named.csv", 20),
        ("timed.csv", None),
        ("array.npy", 20),
        ("array.npz", 20),
    ):
        found = read_record(tmp_path / name, rate)
        np.testing.assert_array_equal(found.values, values)
        assert found.rate == pytest.approx(20.0)
        assert found.names == (
            ("a", "b", "c") if name in ("named.csv", "timed.csv") else ("1", "2", "3")
        )


GOOD = "1,2\n3,4\n5,1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n,4\n5,1\n", "channel '1' has 1 missing.*first at 0.1 s"),
        ("a,b\n1,2\n3,nan\n5,1\n", "channel 'b' has 1 missing"),
        ("1,2\n3,2\n5,2\n", "channel '2' is constant"),
        ("1,2\n3\n5,1\n", "line 2: expected 2 columns, got 1"),
        ("1,2\n3,x\n5,1\n", "line 2, column 2: expected a number, got 'x'"),
        ("", "is empty"),
        ("a,b\n", "nothing below"),
        ("1,2,3\n1,5,3\n", "more samples than channels"),
        ("time,a\n0,1\n0.1,2\n0.5,3\n0.6,1\n", "uneven after"),
        ("time,a\n0,1\n0.2,2\n0.4,3\n", "time column says 5 Hz"),
    ],
)
def test_a_record_that_cannot_be_used_is_one_sentence(tmp_path, text, message):
    path = tmp_path / "record.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_record(path, 10.0)


def test_missing_and_foreign_files(tmp_path):
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(ValueError, match="No such file"):
        read_record(tmp_path / "none.csv", 10.0)
    with pytest.raises(ValueError, match="No such file"):
        read_record(tmp_path / "none.npy", 10.0)
    with pytest.raises(ValueError, match="not a NumPy file"):
        read_record(tmp_path / "text.npy", 10.0)
    with pytest.raises(ValueError, match="positive sampling rate"):
        record_of(np.random.default_rng(0).normal(size=(9, 2)), 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f,psd\n0.7,1\n", "expected the columns frequency_hz,psd"),
        ("0.7,1\n0.8,1\n", "no heading"),
        ("frequency_hz,psd,what\n0.7,1,2\n", "third column"),
        ("frequency_hz,psd\n0.8,1\n0.7,2\n", "increasing order"),
        ("frequency_hz,psd\n0.7,1\n0.8,-2\n", "negative at 0.8 Hz"),
        ("frequency_hz,psd\n0.7,1\n0.8,\n", "line 3"),
        ("frequency_hz,psd,averages\n0.7,1,3\n0.8,1,3\n", "do not give --averages"),
    ],
)
def test_a_spectrum_that_cannot_be_used_is_one_sentence(tmp_path, text, message):
    path = tmp_path / "psd.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_spectrum(path, 4.0)


def test_a_spectrum_is_read_with_its_averages_and_cut_to_the_band(tmp_path):
    path = tmp_path / "psd.csv"
    path.write_text("# a comment\nfrequency_hz,psd\n0.6,1\n0.7,2\n0.8,3\n0.9,2\n")
    found = read_spectrum(path, 12.0, (0.65, 0.85))
    np.testing.assert_array_equal(found.frequency, [0.7, 0.8])
    np.testing.assert_array_equal(found.averages, [12.0, 12.0])
    assert read_spectrum(path).averages is None
    with pytest.raises(ValueError, match=r"covers 0\.6 to 0\.9 Hz"):
        read_spectrum(path, None, (2.0, 3.0))
