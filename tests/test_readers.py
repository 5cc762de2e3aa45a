"""Readers of files that people have: ARFF and XML of Mulan, ratings, CSV, OpenML."""

import sys

import numpy as np
import pytest
from papers.mulan import fetch_multilabel, read_arff, read_mulan
from scipy.io import arff as scipy_arff

import mcframe as mc
from mcframe.datasets import (
    read_csv,
    read_multilabel,
    read_ratings,
)

pytestmark = pytest.mark.core

LABELS = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="it&apos;s loud"></label>
<label name="sad"><label name="very sad"/></label>
</labels>
"""
DENSE = r"""% a comment, with a , and a '
@RELATION 'my songs'

@attribute "very sad" {1, 0}
@Attribute length NUMERIC % seconds
@attribute 'key, mode' {'C, major', "a \"minor\"", F}
@attribute sad {0,1}
@attribute rate { 3 , 1.5 }
@attribute mode {minor, major}
@attribute	tempo	real
@attribute 'it\'s loud' integer
@data
1, 180.5, 'C, major', 0, 3, minor, -1e-3, 1
% another
0, ?, "a \"minor\"", 1,1.5, major, 2, 0

?, 0, F, ?, ?, ?, ?, ?
'0',+4.,?,'1','3','major',7,0
"""
DENSE_FEATURES = [
    [180.5, 1, 0, 0, 3, 0, -1e-3],
    [np.nan, 0, 1, 0, 1.5, 1, 2],
    [0, 0, 0, 1, np.nan, np.nan, np.nan],
    [4, np.nan, np.nan, np.nan, 3, 1, 7],
]
DENSE_LABELS = [[1, 0, 1], [0, 1, 0], [np.nan, np.nan, np.nan], [0, 1, 0]]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MCFRAME_DATA", raising=False)
    (tmp_path / "labels.xml").write_text(LABELS)
    return tmp_path


def written(place, text, name="table.arff"):
    (place / name).write_text(text, encoding="utf-8")
    return place / name


# Mulan


def test_a_dense_file_with_all_that_arff_allows(place):
    data = read_mulan(written(place, DENSE), "labels.xml")
    assert data.name == "table"
    assert data.feature_names == (
        "length",
        "key, mode=C, major",
        'key, mode=a "minor"',
        "key, mode=F",
        "rate",
        "mode=major",
        "tempo",
    )
    assert data.label_names == ("very sad", "sad", "it's loud")
    np.testing.assert_array_equal(data.features, DENSE_FEATURES)
    np.testing.assert_array_equal(data.labels, DENSE_LABELS)


def test_line_ends_and_a_byte_order_mark_change_nothing(place):
    (place / "table.arff").write_bytes(b"\xef\xbb\xbf" + DENSE.replace("\n", "\r\n").encode())
    data = read_mulan("table.arff", "labels.xml")
    np.testing.assert_array_equal(data.features, DENSE_FEATURES)
    np.testing.assert_array_equal(data.labels, DENSE_LABELS)


HEAD = """@relation r
@attribute size numeric
@attribute tone {low, high}
@attribute sad {0,1}
@attribute "very sad" {1,0}
@attribute 'it\\'s loud' {0,1}
@data
"""


def test_what_a_sparse_row_leaves_out_is_zero_or_the_first_value(place):
    rows = "{0 2.5, 1 high, 2 1}\n{ 3 0 ,4 ? }\n{}\n{1 'low',0 ?}\n"
    data = read_mulan(written(place, HEAD + rows), "labels.xml")
    np.testing.assert_array_equal(data.features, [[2.5, 1], [0, 0], [0, 0], [np.nan, 0]])
    np.testing.assert_array_equal(data.labels, [[1, 1, 0], [0, 0, np.nan], [0, 1, 0], [0, 1, 0]])


def test_dense_and_sparse_rows_say_the_same(place):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 2, (30, 8))
    head = "@relation r\n" + "".join(f"@attribute a{j} {{0,1}}\n" for j in range(8)) + "@data\n"
    dense = "".join(",".join(map(str, row)) + "\n" for row in cells)
    sparse = "".join(
        "{" + ", ".join(f"{j} {v}" for j, v in enumerate(row) if v) + "}\n" for row in cells
    )
    tables = [read_arff(written(place, head + rows))[1] for rows in (dense, sparse)]
    np.testing.assert_array_equal(tables[0], cells)
    np.testing.assert_array_equal(tables[1], cells)


def test_scipy_reads_the_same_where_it_can(place):
    """scipy.io.arff knows no sparse rows and no escapes; it is the oracle for what it knows."""
    rng = np.random.default_rng(0)
    columns = {
        "plain": rng.standard_normal(20),
        "'in quotes'": 10.0 ** rng.integers(-300, 300, 20),
        "whole": rng.integers(-5, 5, 20).astype(float),
    }
    kinds = rng.choice(["red", "green", "dark blue"], 20)
    head = "@relation r\n" + "".join(f"@attribute {name} numeric\n" for name in columns)
    head += "@attribute colour {red, green, 'dark blue'}\n@data\n"
    missing = rng.random((20, 3)) < 0.2
    rows = ""
    for i, values in enumerate(zip(*columns.values(), strict=True)):
        cells = ["?" if missing[i, j] else repr(float(v)) for j, v in enumerate(values)]
        rows += ", ".join([*cells, f"'{kinds[i]}'"]) + "\n"
    file = written(place, head + rows)
    (attributes, table), (theirs, meta) = read_arff(file), scipy_arff.loadarff(file)
    assert [attribute.name for attribute in attributes] == meta.names()
    for j, name in enumerate(meta.names()[:3]):
        np.testing.assert_array_equal(table[:, j], theirs[name])
    values = attributes[3].values
    named = [values[int(cell)] for cell in table[:, 3]]
    assert named == [value.decode() for value in theirs["colour"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "1,low,0,0,2\n", "line 8: '2' was given for \"it's loud\", which is declared as"),
        (
            HEAD + "1,low,0,0\n",
            r"line 8: 4 values were given for 5 attributes; write one for each",
        ),
        (HEAD + "x,low,0,0,1\n", "line 8: 'x' was given for 'size', which is numeric; a finite"),
        (HEAD + "1e999,low,0,0,1\n", "line 8: '1e999' was given for 'size'"),
        (HEAD + "1_000,low,0,0,1\n", "line 8: '1_000' was given for 'size'"),
        (HEAD + ",low,0,0,1\n", "line 8: '' was given for 'size'"),
        (HEAD + "1,'low,0,0,1\n", "line 8: quotation marks do not match at"),
        (HEAD + "\n{9 1}\n", "line 9: place 9 is named, but 4 is the last; places count from 0"),
        (HEAD + "{0 1, 0 2}\n", "line 8: place 0 is named, twice"),
        (HEAD + "{0 1\n", "line 8: a sparse row begins with { and does not end with }"),
        (HEAD + "{0:1}\n", "line 8: '0:1' is no pair of a place and a value, such as 3 1.5"),
        (HEAD, "has no rows after its line @data; is it complete?"),
        ("@relation r\n@attribute a numeric\n", "has no line @data"),
        ("@relation r\n@data\n1\n", "line 2: no attribute is declared before @data"),
        ("a,b\n1,2\n", "line 1: 'a,b' is neither @relation, @attribute, @data nor a comment"),
        ("@attribute when date\n", "line 1: attribute 'when' is of the type 'date'; only numeric"),
        ("@attribute lonely\n", "line 1: attribute 'lonely' is of the type ''; only numeric"),
        ("@attribute\n", "line 1: '@attribute' declares nothing; @attribute NAME TYPE is needed"),
        (
            "@attribute a real\n@attribute 'a' real\n@data\n1,2\n",
            "two attributes are called 'a'; rename one of them",
        ),
    ],
)
def test_a_spoilt_arff_file_is_told_by_line_and_value(place, text, message):
    with pytest.raises(mc.DataError) as caught:
        read_mulan(written(place, text), "labels.xml")
    assert message in str(caught.value)
    assert str(place / "table.arff") in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            '<labels><label name="sed"/></labels>',
            "names the label 'sed', which is no attribute of",
        ),
        ('<labels><label name="sed"/></labels>', "its 'sad' is near"),
        ('<labels><label name="xyz"/></labels>', "do the files belong together?"),
        ("<labels></labels>", "has 0 labels, 0 of them with a name"),
        ("<labels><label/></labels>", "has 1 labels, 0 of them with a name"),
        ("sad\n", "is not XML"),
        ('<labels><label name="tone"/></labels>', "the label 'tone' has the value 'low'; declare"),
        ('<labels><label name="size"/></labels>', "the label 'size' has the value '2.5'; declare"),
    ],
)
def test_a_list_of_labels_that_does_not_fit_is_told(place, labels, message):
    file = written(place, HEAD + "2.5,low,0,0,1\n")
    (place / "labels.xml").write_text(labels)
    with pytest.raises(mc.DataError) as caught:
        read_mulan(file, "labels.xml")
    assert message in str(caught.value)


def test_a_table_of_labels_alone_is_refused(place):
    text = "@relation r\n@attribute sad {0,1}\n@data\n1\n"
    (place / "labels.xml").write_text('<labels><label name="sad"/></labels>')
    with pytest.raises(mc.DataError, match="no feature is left"):
        read_mulan(written(place, text), "labels.xml")


def test_another_encoding_is_asked_for(place):
    text = "@relation r\n@attribute größe numeric\n@attribute sad {0,1}\n@data\n1,0\n"
    (place / "table.arff").write_bytes(text.encode("latin-1"))
    (place / "labels.xml").write_text('<labels><label name="sad"/></labels>')
    with pytest.raises(mc.DataError, match="is not text in utf-8"):
        read_mulan("table.arff", "labels.xml")
    assert read_mulan("table.arff", "labels.xml", encoding="latin-1").feature_names == ("größe",)


def test_the_pair_of_emotions_is_what_was_converted(data_folder):
    data = read_mulan(data_folder / "emotions.arff", data_folder / "emotions.xml")
    expected = read_multilabel(data_folder / "emotions.npz")
    np.testing.assert_array_equal(data.features, expected.features)
    np.testing.assert_array_equal(data.labels, expected.labels)
    assert data.feature_names == expected.feature_names
    assert data.label_names == expected.label_names
    theirs, meta = scipy_arff.loadarff(data_folder / "emotions.arff")
    for j, name in enumerate(meta.names()[:72]):
        np.testing.assert_array_equal(data.features[:, j], theirs[name])


# Ratings

TRIPLES = [(7, 30, 4.0, 881250949), (2, 30, 5.0, 891717742), (2, 11, 0.5, 878887116)]


def as_text(separator):
    return "".join(separator.join(map(str, triple)) + "\n" for triple in TRIPLES)


CSV = "userId,movieId,rating,timestamp\n" + as_text(",")
# Other columns, another order.
CSV_MIXED = "rating,title,movieId,userId\n4,x,30,7\n5,x,30,2\n0.5,y,11,2\n"


@pytest.mark.parametrize(
    ("name", "text", "timed"),
    [
        ("u.data", as_text("\t"), True),
        ("ratings.dat", as_text("::"), True),
        ("ratings.csv", CSV, True),
        ("crlf.csv", "\ufeff" + CSV.replace("\n", "\r\n"), True),
        ("mixed.csv", CSV_MIXED, False),
        ("no_times.dat", "7::30::4\n2::30::5\n2::11::0.5\n", False),
    ],
)
def test_ratings_of_each_kind(place, name, text, timed):
    found = read_ratings(written(place, text, name))
    assert found.user_ids.tolist() == [2, 7]
    assert found.item_ids.tolist() == [11, 30]
    assert found.users.tolist() == [1, 0, 0]
    assert found.items.tolist() == [1, 1, 0]
    assert found.ratings.tolist() == [4.0, 5.0, 0.5]
    expected = [time for *_, time in TRIPLES] if timed else None
    assert (None if found.timestamps is None else found.timestamps.tolist()) == expected
    assert found.matrix().toarray().tolist() == [[0.5, 5.0], [0.0, 4.0]]
    assert "3 ratings of 2 items by 2 users (25.0% missing)" in repr(found)
    assert len(found) == 3


def test_ratings_of_an_archive_and_a_fit_of_them(place):
    users, items = np.divmod(np.arange(60, dtype=np.int32), 10)
    np.savez("some.npz", user=users, item=items, rating=(users % 5).astype(np.int32))
    found = read_ratings("some.npz")
    assert found.timestamps is None
    # A rating of 0 is stored, and observed.
    assert found.matrix().nnz == 60
    model = mc.Model([mc.Block("ratings", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    assert mc.fit(model, {"ratings": found.matrix()}).status == "certified"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\t2\t3\t4\n1\tx\t3\t4\n", "line 2: 'x' was given as movieId; a whole number is needed"),
        ("1::2::3::4\n1::2::good::4\n", "line 2: 'good' was given as rating; a number is needed"),
        ("1::2::3::4\n1.5::2::3::4\n", "line 2: '1.5' was given as userId; a whole number"),
        ("1::2::3::4\n1::3::nan::4\n", "line 2: 'nan' was given as rating; a number is needed"),
        ("1::2::3::4\n1::3\n", "line 2: '' was given as rating; a number is needed"),
        ("1::2::3::4\n1::2_0::3::4\n", "line 2: '2_0' was given as movieId"),
        ("1::2::3::4\n1::2::5::4\n", "user 1 rated item 2 more than once; keep one rating"),
        ("1 2 3 4\n", "line 1: '1 2 3 4' has none of tab, :: and comma between its columns"),
        ("1\t2\n", "line 1, has 2 columns; user, item, rating and, or not, timestamp"),
        (
            "userId,movieId,stars\n1,2,3\n",
            "the header has userId, movieId, stars, and no 'rating'",
        ),
        ("userId,movieId,rating\n", "has no ratings in its 1 lines; is it complete?"),
        ("", "line 1: '' has none of tab"),
    ],
)
def test_spoilt_ratings_are_told_by_line_and_column(place, text, message):
    with pytest.raises(mc.DataError) as caught:
        read_ratings(written(place, text, "some.dat"))
    assert message in str(caught.value)
    assert "some.dat" in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"user": [1], "item": [2]}, "has no array 'rating', it holds 'user', 'item'; write one"),
        ({"user": [1], "item": [2, 3], "rating": [1]}, r"(n_ratings,) is needed of all"),
        ({"user": [1.5], "item": [2], "rating": [1]}, "'user' is of type float64"),
        ({"user": [1], "item": [2], "rating": [np.nan]}, "rating[0] is nan; leave out"),
        ({"user": ["a"], "item": [2], "rating": [1]}, "'user' is of type <U1"),
    ],
)
def test_a_spoilt_archive_is_told(place, arrays, message):
    np.savez("some.npz", **arrays)
    with pytest.raises(mc.DataError) as caught:
        read_ratings("some.npz")
    assert message in str(caught.value)


def test_the_ratings_of_movielens(data_folder):
    found = read_ratings(data_folder / "movielens100k.npz")
    matrix = found.matrix()
    assert matrix.shape == (943, 1682)
    assert matrix.nnz == 100_000
    counts = np.bincount(found.ratings.astype(int))[1:]
    assert counts.tolist() == [6110, 11370, 27145, 34174, 21201]


# CSV

SONGS = """id,bpm,length,"sad, very",loud
a,120,,1,0
b,NA, 3.5 ,,1

c,1e2,nan,0,NaN
"""
BLOCKS = {"features": ["length", "bpm"], "labels": ["sad, very", "loud"]}


def test_columns_become_blocks(place):
    data = read_csv(written(place, SONGS, "songs.csv"), BLOCKS)
    np.testing.assert_array_equal(data["features"], [[np.nan, 120], [3.5, np.nan], [np.nan, 100]])
    np.testing.assert_array_equal(data["labels"], [[1, 0], [np.nan, 1], [0, np.nan]])


def test_a_star_stands_for_anything(place):
    text = "x_1,y.a,x_2,yya\n1,2,3,4\n"
    data = read_csv(written(place, text, "x.csv"), {"x": "x_*", "y": "y.*", "one": "yya"})
    assert {block: values.tolist() for block, values in data.items()} == {
        "x": [[1.0, 3.0]],
        "y": [[2.0]],
        "one": [[4.0]],
    }


def test_frames_keep_names_and_predictions_have_them(place):
    rng = np.random.default_rng(0)
    rows = "".join(f"i{i}," + ",".join(f"{v:.3f}" for v in rng.random(3)) + "\n" for i in range(9))
    file = written(place, "id,a,b,c\n" + rows, "x.csv")
    data = read_csv(file, {"x": ["a", "b", "c"]}, as_frame=True, index="id")
    assert list(data["x"].columns) == ["a", "b", "c"]
    assert list(data["x"].index[:2]) == ["i0", "i1"]
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    predicted = mc.fit(model, data).predict("x")
    assert list(predicted.columns) == ["a", "b", "c"]
    assert list(predicted.index) == list(data["x"].index)


def test_other_delimiters_and_signs_of_missing(place):
    file = written(place, "a;b\n1;-\n.;2\n", "x.csv")
    data = read_csv(file, {"x": ["a", "b"]}, delimiter=";", missing=("-", "."))
    np.testing.assert_array_equal(data["x"], [[1, np.nan], [np.nan, 2]])


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            SONGS,
            {"blocks": {"x": ["bmp"]}},
            "block 'x' names the column 'bmp', which is not there;",
        ),
        (SONGS, {"blocks": {"x": ["bmp"]}}, "did you mean 'bpm'?"),
        (
            SONGS,
            {"blocks": {"x": "z*"}},
            "no column fits block 'x', 'z*'; the columns are id, bpm",
        ),
        (SONGS, {"blocks": {"x": []}}, "no column fits block 'x'"),
        (SONGS, {"blocks": {}}, "name at least one block"),
        (
            SONGS,
            {"blocks": {"x": ["bpm"], "y": "b*"}},
            "column 'bpm' is in block 'x' and again in",
        ),
        (SONGS, {"blocks": {"x": ["id"]}}, "line 2, column 'id': 'a' is no finite number; recode"),
        (
            SONGS,
            {"blocks": BLOCKS, "missing": ("NA",)},
            "line 2, column 'length': '' is no finite",
        ),
        ("a\n1\n\ninf\n", {"blocks": {"x": "a"}}, "line 4, column 'a': 'inf' is no finite number"),
        ("a,b\n1,2\n3\n", {"blocks": {"x": "a"}}, "line 3 has 1 cell, and the first line has 2"),
        ("a,a\n1,2\n", {"blocks": {"x": "a"}}, "two columns are called 'a'; rename one"),
        ("a\n", {"blocks": {"x": "a"}}, "has a header and no rows; is it complete?"),
        ("", {"blocks": {"x": "a"}}, "the first line is empty; it must name the columns"),
        (SONGS, {"blocks": BLOCKS, "delimiter": ", "}, "delimiter=', ' was given; one character"),
        (SONGS, {"blocks": BLOCKS, "index": "id"}, "index='id' needs as_frame=True"),
    ],
)
def test_a_spoilt_csv_file_is_told_by_line_and_column(place, text, options, message):
    with pytest.raises(mc.DataError) as caught:
        read_csv(written(place, text, "x.csv"), **options)
    assert message in str(caught.value)


def test_frames_without_pandas_say_how_to_get_it(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    file = written(place, SONGS, "songs.csv")
    assert read_csv(file, BLOCKS)["features"].shape == (3, 2)
    with pytest.raises(ModuleNotFoundError, match="pip install pandas, or leave as_frame out"):
        read_csv(file, BLOCKS, as_frame=True)


# OpenML: what scikit-learn would hand over, without the network


class Downloaded:
    data = np.array([[1.5, 0.0], [np.nan, 2.0]])
    target = np.array([["TRUE", "0"], [None, "1"]], dtype=object)
    feature_names = ("size", "colour")
    target_names = ("loud", "sad")
    categories = {"colour": ["red", "green", "blue"]}  # noqa: RUF012
    details = {"name": "songs"}  # noqa: RUF012


def test_a_download_becomes_a_table(monkeypatch):
    asked = {}

    def fetch(**options):
        asked.update(options)
        return Downloaded()

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    data = fetch_multilabel("songs", version=4)
    assert asked["name"] == "songs"
    assert asked["version"] == 4
    assert data.feature_names == ("size", "colour=red", "colour=green", "colour=blue")
    np.testing.assert_array_equal(data.features, [[1.5, 1, 0, 0], [np.nan, 0, 0, 1]])
    np.testing.assert_array_equal(data.labels, [[1, 0], [np.nan, 1]])
    fetch_multilabel(40589)
    assert asked["data_id"] == 40589


def test_a_download_of_classes_is_refused(monkeypatch):
    class Classes(Downloaded):
        target = np.array(["a", "b"], dtype=object)
        target_names = ("class",)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: Classes())
    with pytest.raises(mc.DataError, match="target 'class' is 'a' in row 0; this is no label"):
        fetch_multilabel("iris")


@pytest.mark.parametrize("name", ["read_mulan", "fetch_multilabel", "ParquetTriples"])
def test_names_that_are_gone_say_where_they_are(name):
    with pytest.raises(AttributeError, match=r"examples/papers/mulan.py|what parquet_triples"):
        getattr(mc.datasets, name)
    assert name not in mc.datasets.__all__
    with pytest.raises(AttributeError, match="did you mean 'read_ratings'"):
        mc.datasets.read_rating  # noqa: B018
