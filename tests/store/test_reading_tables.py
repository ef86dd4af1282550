"""Tables as people have them: each is read right, or refused with its line and column."""

import gzip

import numpy as np
import pytest

from folt.store.columns import ColumnKind, suspected
from folt.store.fields import Style, moments, style_of
from folt.store.tables import read_table

NAN = np.nan

READ = {
    # name: (text, names of the columns of numbers, their values, line of the first row)
    "plain": ("1,2\n3,4\n", ("column 1", "column 2"), [[1, 2], [3, 4]], 1),
    "a heading": ("x,y\n1,2\n3,4\n", ("x", "y"), [[1, 2], [3, 4]], 2),
    "an index of pandas": (",a,b\n0,1.5,2\n1,2.5,3\n", ("a", "b"), [[1.5, 2], [2.5, 3]], 2),
    "a filtered index": (",a\n3,1.5\n9,2.5\n4,1\n", ("a",), [[1.5], [2.5], [1]], 2),
    "an index twice": ("Unnamed: 0,a\n0,1.5\n1,2.5\n", ("a",), [[1.5], [2.5]], 2),
    "numbers for names": (",0,1\n0,1.5,2\n1,2.5,3\n", ("0", "1"), [[1.5, 2], [2.5, 3]], 2),
    "years for names": ("place,2020,2021\na,1,2\nb,2,3\n", ("2020", "2021"), [[1, 2], [2, 3]], 2),
    "semicolons": ("a;b\n1.5;2\n3;4\n", ("a", "b"), [[1.5, 2], [3, 4]], 2),
    "decimal commas": ("a;b\n1,5;2\n1.234,5;4\n", ("a", "b"), [[1.5, 2], [1234.5, 4]], 2),
    "three decimals": ("a;b\n1,234;2,345\n", ("a", "b"), [[1.234, 2.345]], 2),
    "one column of commas": ("x\n1,5\n2,7\n3\n", ("x",), [[1.5], [2.7], [3]], 2),
    "thousands": ('a,b\n"1,234.5",2\n"12,345",3\n', ("a", "b"), [[1234.5, 2], [12345, 3]], 2),
    "inches": ('a,b\n5" pipe,2\n6" pipe,3\n', ("b",), [[2], [3]], 2),
    "thousands by spaces": ("a;b\n1 234,5;2\n3,5;4\n", ("a", "b"), [[1234.5, 2], [3.5, 4]], 2),
    "tabs": ("a\tb\n1.5\t2\n", ("a", "b"), [[1.5, 2]], 2),
    "spaces": ("  x    y\n  1.0  2e-3\n 10.0  4\n", ("x", "y"), [[1, 0.002], [10, 4]], 2),
    "bars": ("a|b\n1|2\n", ("a", "b"), [[1, 2]], 2),
    "delimiters at the end": ("a,b,\n1,2,\n3,4,\n", ("a", "b"), [[1, 2], [3, 4]], 2),
    "delimiters not in the heading": ("a;b\n1,5;2;\n3;4;\n", ("a", "b"), [[1.5, 2], [3, 4]], 2),
    "a declared delimiter": ("sep=;\na;b\n1;2\n", ("a", "b"), [[1, 2]], 3),
    "names of rows": ('"x" "y"\n"p" 2.5 1\n"q" 3.5 2\n', ("x", "y"), [[2.5, 1], [3.5, 2]], 2),
    "remarks": ("# a remark\nx\n1\n# another\n2\n", ("x",), [[1], [2]], 3),
    "names in a remark": ("# a, b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]], 2),
    "empty lines": ("\n\nx,y\n\n1,2\n\n3,4\n\n", ("x", "y"), [[1, 2], [3, 4]], 5),
    "empty rows of a spreadsheet": (";;\na;b;c\n1;2;3\n;;\n;;\n", ("a", "b", "c"), [[1, 2, 3]], 3),
    "units below": ("a,b\n[m],[m/s^2]\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]], 3),
    "text and dates": ("day,kind,x\n2024-01-01,p,1.5\n2024-01-02,q,2\n", ("x",), [[1.5], [2]], 2),
    "dates with points": ("tag;x\n01.02.2024;1,5\n02.02.2024;2\n", ("x",), [[1.5], [2]], 2),
    "truth values": ("x,ok\n1,True\n2,False\n", ("x",), [[1], [2]], 2),
    "repeated names": ("x,x\n1,2\n3,4\n", ("x", "x.1"), [[1, 2], [3, 4]], 2),
    "a column without a name": ("a,,b\n1,2.5,3\n", ("a", "column 2", "b"), [[1, 2.5, 3]], 2),
    "an empty column": ("a,b,c\n1,,3\n2,,4\n", ("a", "c"), [[1, 3], [2, 4]], 2),
    "quotes over lines": ('"a\nb",c\n1,"2"\n', ("a b", "c"), [[1, 2]], 3),
    "missing words": ("a,b\n1,NA\n-,3\n,n/a\n", ("a", "b"), [[1, NAN], [NAN, 3], [NAN, NAN]], 2),
    "errors of a spreadsheet": (
        "x,y\n1,2\n#DIV/0!,3\n#NAME?,4\n#REF!,5\n6,7\n",
        ("x", "y"),
        [[1, 2], [NAN, 3], [NAN, 4], [NAN, 5], [6, 7]],
        2,
    ),
    "a remark like an error": ("#Notes\n#NAMES x y\nx\n1\n2\n", ("x",), [[1], [2]], 4),
    "old line ends": ("x,y\r1,2\r3,4\r", ("x", "y"), [[1, 2], [3, 4]], 2),
    "a logger": (
        "Logger ABC\nSerial;1234\nStart;2024-01-01\n\nTime;Ch1;Ch2\ns;g;g\n0,0;1,5;2\n0,1;2,5;3\n",
        ("Time", "Ch1", "Ch2"),
        [[0, 1.5, 2], [0.1, 2.5, 3]],
        7,
    ),
    "settings as wide as the table": (
        "Serial;1234\nName;north\nTime;Ch1\n0;1\n1;2\n2;1\n3;5\n",
        ("Time", "Ch1"),
        [[0, 1], [1, 2], [2, 1], [3, 5]],
        4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_a_table_is_read_right(case, tmp_path):
    text, names, values, line = READ[case]
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode())
    table = read_table(path)
    found = table.numbers()
    assert tuple(table.names[j] for j in table.of_kind(ColumnKind.NUMBERS)) == names
    np.testing.assert_array_equal(found, values)
    assert table.lines[0] == line


REFUSED = {
    "nothing": ("", "is empty"),
    "a heading alone": ("a,b\n", "has a heading and nothing below it"),
    "text alone": ("a,b\np,q\nr,s\n", "line 2, column 'a': expected a number, got 'p'"),
    "percent": ("x\n1.5%\n2.5%\n", "line 2, column 'x': expected a number, got '1.5%'"),
    "money": ("id;price\np;€1,50\nq;€2,50\n".encode().decode("latin-1"), "expected a number"),
    "a short line": ("a,b\n1,2\n3\n4,5\n", "line 3: expected 2 columns, got 1"),
    "a short first line": ("a,b\n1\n2,3\n4,5\n", "line 2: expected 2 columns, got 1"),
    "a long line": ("a,b\n1,2\n3,4,5\n6,7\n", "line 3: expected 2 columns, got 3"),
    "a total below": ("a;b\n1;2\n3;4\nTotal 2\n", "line 4: expected 2 columns, got 1"),
    "a word": ("a,b\n1,2\n3,oops\n4,5\n", "line 3, column 'b': expected a number, got 'oops'"),
    "a word in the first row": ("a,b\n1,x\n2,3\n4,5\n", "line 2, column 'b': expected a number"),
    "a word below the heading": ("x\nabc\n1\n2\n", "line 2, column 'x': expected a number"),
    "a second heading": ("a,b\n1,2\n3,4\na,b\n5,6\n", "line 4, column 'a': expected a number"),
    "a word and no heading": ("1,2\n2,x\n4,5\n", "line 2, column 2: expected a number, got 'x'"),
    "a word in a heading of numbers": ("1,x\n2,3\n4,5\n", "line 1, column 2: expected a number"),
    "a heading too long": ("a,b,c\n1,2\n3,4\n", "line 1: expected 2 columns"),
    "a heading too short": ("a,b\n1.5,2,3\n2.5,3,4\n", "line 1: expected 3 names"),
    "1,234 among tabs": ("a\tb\n1,234\t2\n", "line 2, column 1: 1,234 may be 1234 or 1.234"),
    "two kinds of decimals": ("a;b\n1,5;2,5\n1.25;2,5\n", "line 3, column 'a': expected a number"),
    "-999": ("x\n1.5\n-999\n2\n3\n", "line 3, column 'x': -999 lies far.*--missing -999"),
    "dates alone": ("day\n2024-01-01\n2024-01-02\n", "line 2, column 'day': expected a number"),
    "an unclosed quote": ('a,b\n1,"2\n3,4\n5,6\n', "line 2"),
    "a quoted novel": ('a,b\n1,"' + 200_000 * "x" + '"\n2,3\n', "cannot be read as a table"),
    "bytes": ("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not a text file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_is_refused_in_a_sentence(case, tmp_path):
    text, words = REFUSED[case]
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=words) as caught:
        read_table(path).numbers()
    assert "\n" not in str(caught.value)
    assert "data.csv" in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
def test_encodings(encoding, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes("größe;t (°C)\n1,5;2\n3;4\n".encode(encoding))
    table = read_table(path)
    assert table.names == ("größe", "t (°C)")
    assert table.columns[1].unit == "°C"
    np.testing.assert_array_equal(table.numbers(), [[1.5, 2], [3, 4]])
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(read_table(tmp_path / "data.csv.gz").numbers(), table.numbers())


def test_every_digit_is_kept_and_lines_are_right(tmp_path):
    values = np.random.default_rng(0).normal(size=(500, 3)) * 10.0 ** np.arange(-200, 201, 200)
    path = tmp_path / "data.csv"
    np.savetxt(path, values, delimiter=",", fmt="%.17g", header="a,b,c")
    table = read_table(path)
    np.testing.assert_array_equal(table.numbers(), values)
    assert table.names == ("a", "b", "c")
    np.testing.assert_array_equal(table.lines, np.arange(2, 502))


def test_columns_are_chosen_by_name_number_and_without_unit(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('kind,"a, b",x (mm),x (s)\np,1,2,3\nq,2,3,4\n')
    table = read_table(path)
    assert table.choose('"a, b",4') == [1, 3]
    assert table.choose("a, b") == [1]
    for words, message in [
        ("z", "no column 'z'.*it has kind"),
        ("x", "may be x \\(mm\\) or x \\(s\\)"),
        ("2,2", "every column once"),
        ("9", "no column '9'"),
    ]:
        with pytest.raises(ValueError, match=message):
            table.choose(words)
    with pytest.raises(ValueError, match="line 2, column 'kind': expected a number, got 'p'"):
        table.numbers(table.choose("kind"))
    assert table.aside([1, 2, 3]).endswith("left aside text: 'kind'")


def test_codes_for_missing_values_are_found_only_far_from_the_others(tmp_path):
    near = np.array([-900.0, -999.0, -1100.0, 20.0])
    assert suspected(near) is None
    assert suspected(np.array([1.0, 2.0, 3.5, 9999.0])) == 3
    assert suspected(np.array([1.0, 2.0, 3.5, 1000.0])) is None
    path = tmp_path / "data.csv"
    path.write_text("x\n1\n-999.0\n2\n")
    np.testing.assert_array_equal(read_table(path, ["-999"]).numbers()[:, 0], [1, np.nan, 2])
    assert read_table(path, ["NA"]).numbers()[1, 0] == -999


def test_styles_and_moments():
    assert style_of(["1.5", "2"], ",") is Style.POINT
    assert style_of(["0,5", "1.234"], "\t") is Style.COMMA
    assert style_of(["1,234"], "\t") is None
    assert Style.COMMA.number("1.234.567,5") == 1234567.5
    assert Style.POINT.number("1,23") is None
    both = moments(["12/31/2025 11:59:59 PM", "1/1/2026 12:00:00 AM"])
    assert both is not None
    np.testing.assert_allclose(both.seconds, [0, 1])
    named = moments(["18-Nov-2026 02:15:00.50", "18-Nov-2026 02:15:01.00"])
    assert named is not None
    np.testing.assert_allclose(named.seconds, [0, 0.5])
    assert moments(["2024-13-01"]) is None
    assert moments(["p"]) is None


@pytest.mark.parametrize(("name", "package"), [("a.xlsx", "openpyxl"), ("a.parquet", "pyarrow")])
def test_spreadsheets_and_parquet(name, package, tmp_path):
    pytest.importorskip(package)
    import pandas as pd

    frame = pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=3),
            "x": [1.5, None, 1 / 3],
            "kind": list("pqr"),
        }
    )
    path = tmp_path / name
    frame.to_excel(path) if name.endswith("x") else frame.to_parquet(path)
    table = read_table(path)
    np.testing.assert_array_equal(table.numbers()[:, 0], [1.5, np.nan, 1 / 3])
    assert [table.columns[table.names.index(name)].kind for name in frame] == [
        ColumnKind.DATES,
        ColumnKind.NUMBERS,
        ColumnKind.TEXT,
    ]
    path.write_bytes(b"no such thing")
    with pytest.raises(ValueError, match="cannot be read as"):
        read_table(path)
