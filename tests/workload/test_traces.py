"""Trace readers: what they read, and how they complain."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, OutputError, TraceError, UnknownNameError
from eunomia.workload import traces
from eunomia.workload.arrivals import Replay
from eunomia.workload.deadlines import IsolatedFactor
from eunomia.workload.replay import replay
from eunomia.workload.tenant import Agreement, Slo
from eunomia.workload.traces.canonical import write
from eunomia.workload.traces.summary import describe
from eunomia.workload.traces.trace import OPTIONAL, Trace
from tests.effort import lines_of
from tests.shared_data import shared

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
BURST = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
CANONICAL = "arrival_s,tenant,model,relative_deadline_s,priority,duration_s\n"


@pytest.fixture
def put(tmp_path):
    """Writes a file and returns its path."""

    def _put(content: str | bytes, name: str = "trace.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _put


def names(trace: Trace) -> list[tuple[str, str]]:
    return [
        (trace.tenants[t], trace.models[m] if m >= 0 else "")
        for t, m in zip(trace.tenant, trace.model, strict=True)
    ]


# --- the real files: figures as their publishers and users quote them


@pytest.mark.parametrize(
    "file, rows, rate, context, generated",
    [
        ("azure_llm_2023_conv.csv", 19_366, 5.5, (1020, 4142), (129, 601)),
        ("azure_llm_2023_code.csv", 8_819, 2.6, (1469, 7436), (13, 249)),
    ],
)
def test_azure_llm_2023_has_its_quoted_figures(file, rows, rate, context, generated):
    trace = traces.open("auto", shared(f"traces/{file}"))
    assert trace.format == "azure-llm" and len(trace) == rows and trace.arrival_s[0] == 0.0
    assert round(trace.mean_rate_per_s, 1) == rate and 3400 < trace.span_s < 3600
    for column, quoted in (("context_tokens", context), ("generated_tokens", generated)):
        p50, p99 = np.percentile(getattr(trace, column), [50, 99], method="lower")
        assert p50 == quoted[0] and p99 == pytest.approx(quoted[1], rel=0.01)


def test_azure_stamps_keep_all_seven_digits():
    trace = traces.open("azure-llm", shared("traces/azure_llm_2023_conv.csv"))
    assert trace.arrival_s[1] == pytest.approx(50.9951690 - 46.6805900, abs=1e-9)


def test_philly_extract_has_its_quoted_figures_and_is_read_without_a_loop_over_rows():
    path = shared("traces/philly_reduced.csv")
    trace = traces.open("auto", path)  # imports what it needs
    count, _ = lines_of(lambda: traces.open("auto", path))
    assert count < len(trace) / 10
    assert (trace.format, len(trace), len(trace.tenants)) == ("philly", 82_247, 15)
    assert (np.diff(trace.arrival_s) >= 0.0).all() and trace.arrival_s[0] == 0.0
    assert np.median(trace.duration_s) == 1144.0 and round(trace.duration_s.mean()) == 13_136
    assert np.percentile(trace.duration_s, [90, 99]) == pytest.approx([11_266, 254_884], rel=1e-3)
    assert round((trace.gpus == 1).mean(), 2) == 0.93
    assert 90 < trace.span_s / 86_400 < 125  # September to December
    assert (trace.model == -1).all()


# --- each format, by hand


def test_azure_llm_2024_stamps_with_offset_and_without_fraction(put):
    path = put("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:00+00:00,5,1\n"
               "2024-05-12 00:00:00.001163+00:00,7,2\n")  # fmt: skip
    trace = traces.open("auto", path, tenant="chat")
    assert trace.arrival_s.tolist() == [0.0, 0.001163]
    assert trace.tenants == ("chat",) and trace.context_tokens.tolist() == [5, 7]


def test_burstgpt_both_releases(put):
    new = BURST + "45,,,ChatGPT,10,0,10,API log\n5,3,2.5,GPT-4,472,18,490,Conversation log\n"
    trace = traces.open("auto", put(new))
    assert trace.arrival_s.tolist() == [0.0, 40.0]
    assert names(trace) == [("Conversation log", "GPT-4"), ("API log", "ChatGPT")]
    assert trace.duration_s[0] == 2.5 and math.isnan(trace.duration_s[1])
    assert trace.notes == ("1 failed requests kept",)
    assert len(traces.open("burstgpt", put(new), drop_failed=True)) == 1
    old = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n"
    )
    assert traces.open("auto", put(old)).duration_s is None


def test_azure_functions_2019_spreads_calls_over_their_minutes(put):
    head = "HashOwner,HashApp,HashFunction,Trigger," + ",".join(str(k) for k in range(1, 1441))
    counts = np.zeros((2, 1440), int)
    counts[0, 0], counts[0, 2], counts[1, 1439] = 600, 1, 2
    lines = [f"o,app{k},f{k},http," + ",".join(map(str, row)) for k, row in enumerate(counts)]
    path = put("\n".join([head, *lines]) + "\n")
    trace = traces.open("auto", path, seed=3)
    assert len(trace) == 603 and trace.tenants == ("app0", "app1") and trace.models == ("f0", "f1")
    first = trace.arrival_s[:600]
    assert first.max() < 60.0 and first.mean() == pytest.approx(30.0, abs=3.0)
    assert 119.0 < trace.arrival_s[600] < 180.0
    assert (trace.arrival_s[601:] > 1439 * 60 - 60.0).all() and (trace.tenant[601:] == 1).all()
    assert np.array_equal(trace.arrival_s, traces.open("auto", path, seed=3).arrival_s)
    assert not np.array_equal(trace.arrival_s, traces.open("auto", path, seed=4).arrival_s)
    assert traces.open("auto", path, tenants="owner").tenants == ("o",)
    with pytest.raises(TraceError, match="more than 600 calls"):
        traces.open("auto", path, max_rows=600)


def test_azure_functions_2021_arrives_at_end_minus_duration(put):
    path = put("app,func,end_timestamp,duration\na,f,50.5,0.5\nb,g,49.5,9.5\n")
    trace = traces.open("auto", path)
    assert trace.arrival_s.tolist() == [0.0, 10.0] and trace.duration_s.tolist() == [9.5, 0.5]
    assert names(trace) == [("b", "g"), ("a", "f")]
    with pytest.raises(ConfigError, match="names no owners"):
        traces.open("auto", path, tenants="owner")


def job(submitted: str, *attempts: tuple[str, str], vc: str = "ee9e8c", gpus: int = 8) -> dict:
    detail = [{"ip": "m1", "gpus": [f"gpu{k}" for k in range(gpus)]}]
    return {
        "status": "Pass",
        "vc": vc,
        "jobid": "application_1",
        "submitted_time": submitted,
        "attempts": [{"start_time": s, "end_time": e, "detail": detail} for s, e in attempts],
    }


def test_philly_job_log(put):
    log = [
        job("2017-10-07 01:12:00", ("2017-10-07 01:12:09", "2017-10-07 01:13:23"), gpus=2),
        job("2017-10-07 01:11:39", ("2017-10-07 02:00:00", "2017-10-07 02:00:10"),
            ("2017-10-07 03:00:00", "2017-10-07 03:00:20"), vc="abc"),
        job("2017-10-07 01:12:00", ("2017-10-07 01:12:09", None)),
        job("None", ("2017-10-07 01:12:09", "2017-10-07 01:13:23")),
    ]  # fmt: skip
    trace = traces.open("auto", put(json.dumps(log), "cluster_job_log"))
    assert trace.arrival_s.tolist() == [0.0, 21.0]
    assert trace.duration_s.tolist() == [30.0, 74.0] and trace.gpus.tolist() == [8, 2]
    assert [tenant for tenant, _ in names(trace)] == ["abc", "ee9e8c"]
    assert trace.notes[-1].startswith("2 jobs without")


@pytest.mark.parametrize(
    "content, words",
    [
        ("[", "line 1: not valid JSON"),
        ("[]", "a list of jobs"),
        (
            json.dumps([job("7 October", ("2017-10-07 01:12:09", "2017-10-07 01:13:23"))]),
            "'7 October' is not a date",
        ),
        (json.dumps([job("2017-10-07 01:12:09")]), "no job of this log"),
        ("[3]", "job 0 has no valid 'attempts'"),
    ],
)
def test_philly_job_log_complaints(put, content, words):
    with pytest.raises(TraceError, match=words):
        traces.open("philly", put(content, "cluster_job_log"))


def test_line_ends_marks_and_compression_do_not_matter(put):
    plain = AZURE.replace("\r", "") + "2023-11-16 18:00:00.5,3,4\n2023-11-16 18:00:01.0,5,6\n"
    expected = traces.open("auto", put(plain))
    for content in (
        plain.replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + plain.encode(),
        gzip.compress(plain.encode()),
        plain.replace("\n", "\n\n"),
    ):
        other = traces.open("auto", put(content))
        assert other.arrival_s.tolist() == expected.arrival_s.tolist() == [0.0, 0.5]


# --- complaints


@pytest.mark.parametrize(
    "content, place, words",
    [
        ("", "trace.csv:", "the file is empty"),
        (AZURE, "trace.csv:", "a header but no rows"),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:00:00,3\n", "line 1, column 'GeneratedTokens'", "missing"),
        (AZURE.replace("Gen", "Context,Gen").replace("ContextTokens,Context,", "ContextTokens,ContextTokens,")
         + "2023-11-16 18:00:00,3,4,5\n", "column 'ContextTokens'", "twice"),
        (AZURE + "2023-11-16 18:00:00,3,4\r\n2023-11-16 18:00:01,x,4\r\n", "line 3, column 'ContextTokens'",
         "'x' is not a whole number"),
        (AZURE + "2023-11-16 18:00:00,3.5,4\r\n", "line 2, column 'ContextTokens'", "'3.5' is not a whole number"),
        (AZURE + "2023-11-16 18:00:00,99999999999999999999,4\r\n", "line 2, column 'ContextTokens'",
         "is not a whole number"),
        (AZURE + "2023-11-16 18:00:00,3,-4\r\n", "line 2, column 'GeneratedTokens'", "-4 is too small"),
        (AZURE + "2023-11-16 18:00:00,3,\r\n", "line 2, column 'GeneratedTokens'", "empty"),
        (AZURE + "2023-13-16 18:00:00,3,4\r\n", "line 2, column 'TIMESTAMP'", "not a date and time"),
        (AZURE + "2023-11-16 18:00:00,3,4\r\n\r\nyesterday,3,4\r\n", "line 4, column 'TIMESTAMP'", "'yesterday'"),
        (AZURE + "2023-11-16 18:00:00,3\r\n", "line 2:", "2 fields, the header has 3"),
        (AZURE.encode() + b"2023-11-16 18:00:00,3,4\r\n2023-11-16 18:00:01,\xff,4\r\n", "line 3", "not UTF-8"),
        ("\ufeff".encode("utf-16") + AZURE.encode("utf-16-le"), "line 1", "not UTF-8"),
        (gzip.compress(b"".join([AZURE.encode(), *(b"2023-11-16 18:00:00,%d,4\r\n" % k for k in range(9999))]))[:-2000],
         "trace.csv:", "ends too early"),
        (b"\x1f\x8b nonsense", "trace.csv:", "cannot be read|damaged"),
        (AZURE + "2023-11-16 18:00:00,3,4\r\n2023-11-16 18:00:01+00:00,3,4\r\n", "trace.csv", "offset"),
    ],
)  # fmt: skip
def test_bad_files_are_named_with_line_and_column(put, content, place, words):
    with pytest.raises(TraceError, match=words) as caught:
        traces.open("azure-llm", put(content))
    message = str(caught.value)
    assert place in message and "trace.csv" in message and "\n" not in message


@pytest.mark.parametrize(
    "row, place, words",
    [
        ("-1,a,m,1,1,1", "line 3, column 'arrival_s'", "-1 is too small"),
        ("nan,a,m,1,1,1", "line 3, column 'arrival_s'", "'nan' is not a finite number"),
        ("1e400,a,m,1,1,1", "line 3, column 'arrival_s'", "not a finite number"),
        ("0.25,a,m,1,1,1", "line 3, column 'arrival_s'", "0.25 is earlier than 0.5"),
        ("1,,m,1,1,1", "line 3, column 'tenant'", "empty"),
        ("1,a,m,0,1,1", "line 3, column 'relative_deadline_s'", "not after the arrival"),
        ("1,a,m,nan,1,1", "line 3, column 'relative_deadline_s'", "'nan' is not a finite"),
        ("1,a,m,1,high,1", "line 3, column 'priority'", "'high' is not a finite number"),
        ("1,a,m,1,1,-3", "line 3, column 'duration_s'", "-3 is too small"),
    ],
)
def test_bad_canonical_rows_are_named_with_line_and_column(put, row, place, words):
    with pytest.raises(TraceError, match=words) as caught:
        traces.open("canonical", put(CANONICAL + "0.5,a,m,,1,\n" + row + "\n"))
    assert place in str(caught.value)


def test_absolute_deadlines_of_the_past_are_refused(put):
    path = put("arrival_s,tenant,deadline_s\n1,a,1.5\n\n2,a,1.5\n")
    with pytest.raises(TraceError, match=r"line 4, column 'deadline_s': the deadline 1.5 is not after"):
        traces.open("canonical", path)
    trace = traces.open("canonical", put("arrival_s,tenant,deadline_s\n1,a,1.5\n2,a,\n"))
    assert trace.relative_deadline_s.tolist() == [0.5, math.inf]
    with pytest.raises(TraceError, match="not both"):
        traces.open("auto", put("arrival_s,tenant,deadline_s,relative_deadline_s\n1,a,2,1\n"))


def test_a_trace_without_tenants_is_of_one(put, tmp_path):
    trace = traces.open("auto", put("arrival_s,priority\n1,1\n2,2\n"))
    assert trace.tenants == ("trace",) and trace.tenant.tolist() == [0, 0]
    pq.write_table(pa.table({"arrival_s": [0.0, 1.0]}), tmp_path / "t.parquet")
    assert traces.open("auto", tmp_path / "t.parquet").tenants == ("trace",)


def test_unsorted_canonical_traces_can_be_sorted(put):
    trace = traces.open("canonical", put("arrival_s,tenant,priority\n2,a,1\n1,b,2\n"), sort=True)
    assert trace.arrival_s.tolist() == [1.0, 2.0] and trace.priority.tolist() == [2.0, 1.0]
    assert [tenant for tenant, _ in names(trace)] == ["b", "a"]


def test_files_beyond_the_bound_are_refused(put, tmp_path):
    path = put(AZURE + "2023-11-16 18:00:00,3,4\r\n" * 5)
    assert len(traces.open("auto", path, max_rows=5)) == 5
    with pytest.raises(TraceError, match="more than 4 rows"):
        traces.open("auto", path, max_rows=4)
    parquet = write(traces.open("auto", path), tmp_path / "x.parquet")
    with pytest.raises(TraceError, match="5 rows, more than 4"):
        traces.open("auto", parquet, max_rows=4)


def test_missing_files_and_folders(tmp_path):
    for format in ("auto", "azure-llm", "philly", "canonical", "azure-functions"):
        with pytest.raises(TraceError, match="No such file"):
            traces.open(format, tmp_path / "none.csv")
        with pytest.raises(TraceError, match="cannot be read"):
            traces.open(format, tmp_path)


def test_unknown_formats_options_and_headers(put):
    path = put("TIMESTAMP,ContextTokens\n1,2\n")
    with pytest.raises(UnknownNameError, match="did you mean 'azure-llm'"):
        traces.open("azure-lm", path)
    with pytest.raises(ConfigError, match="has no option 'sort'; it has: max_rows, tenant"):
        traces.open("azure-llm", path, sort=True)
    with pytest.raises(TraceError, match="the nearest is 'azure-llm', which also needs GeneratedTokens"):
        traces.open("auto", path)


def test_functions_counts_must_be_whole_and_not_negative(put):
    head = "HashOwner,HashApp,HashFunction,Trigger,1,2\n"
    with pytest.raises(TraceError, match="line 3, column '2': .*at least 0"):
        traces.open("auto", put(head + "o,a,f,http,1,2\no,a,g,http,1,-2\n"))
    with pytest.raises(TraceError, match="line 2, column '1': 'x' is not a whole"):
        traces.open("auto", put(head + "o,a,f,http,x,2\n"))
    with pytest.raises(TraceError, match="no calls in any minute"):
        traces.open("auto", put(head + "o,a,f,http,0,0\n"))


@pytest.mark.parametrize(
    "columns, words",
    [
        ({"arrival_s": [0.0, -1.0], "tenant": ["a", "b"]}, "column 'arrival_s': row 1: -1.0 must be"),
        ({"arrival_s": [1.0, 0.5], "tenant": ["a", "b"]}, "row 1: 0.5 is earlier"),
        ({"arrival_s": ["x", "y"], "tenant": ["a", "b"]}, "column 'arrival_s': its type is string"),
        ({"tenant": ["a", "b"]}, "column 'arrival_s': this column is missing"),
        ({"arrival_s": [0.0, None], "tenant": ["a", "b"]}, "row 1: this cell is empty"),
        ({"arrival_s": pa.array([], pa.float64()), "tenant": pa.array([], pa.string())}, "no rows"),
    ],
)
def test_bad_parquet_is_named_with_row_and_column(tmp_path, columns, words):
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match=words):
        traces.open("auto", tmp_path / "t.parquet")


def test_damaged_parquet(put):
    with pytest.raises(TraceError, match="not a readable Parquet file"):
        traces.open("auto", put(b"PAR1 and then nothing", "t.parquet"))


# --- writing, and back


@st.composite
def made_traces(draw):
    count = draw(st.integers(1, 20))
    floats = st.floats(0.0, 1e9, allow_subnormal=False)
    text = st.text(
        st.characters(codec="utf-8", exclude_characters="\r\n\x00", exclude_categories=("Cs",)), min_size=1
    )
    tenants = tuple(draw(st.lists(text, min_size=1, max_size=3, unique=True)))
    models = tuple(draw(st.lists(text, max_size=3, unique=True)))
    column = st.lists(floats, min_size=count, max_size=count).map(np.array)
    codes = lambda low, high: st.lists(st.integers(low, high), min_size=count, max_size=count)  # noqa: E731
    return Trace(
        "canonical",
        "memory",
        np.sort(draw(column)),
        tenants,
        np.array(draw(codes(0, len(tenants) - 1)), np.int32),
        models,
        np.array(draw(codes(-1, len(models) - 1)), np.int32),
        relative_deadline_s=draw(st.none() | column.map(lambda c: np.where(c > 1e8, np.inf, c + 0.5))),
        priority=draw(st.none() | column),
        duration_s=draw(st.none() | column.map(lambda c: np.where(c > 1e8, np.nan, c))),
        context_tokens=draw(st.none() | codes(0, 10**6).map(lambda c: np.array(c, np.int64))),
        source="here",
        licence="CC0",
        notes=("one", "two"),
    )


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@given(trace=made_traces())
def test_a_written_trace_reads_back_the_same(tmp_path_factory, ending, trace):
    path = write(trace, tmp_path_factory.mktemp("t") / f"deep/trace{ending}")
    back = traces.open("auto", path)
    assert np.array_equal(back.arrival_s, trace.arrival_s)
    assert names(back) == names(trace)
    for name in OPTIONAL:
        before, after = getattr(trace, name), getattr(back, name)
        assert (before is None) == (after is None), name
        assert before is None or np.array_equal(before, after, equal_nan=name == "duration_s"), name
    if ending == ".parquet":
        assert (back.source, back.licence, back.notes) == ("here", "CC0", ("one", "two"))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_any_format_can_be_turned_into_the_canonical_one(put, tmp_path):
    trace = traces.open("auto", put(AZURE + "2023-11-16 18:00:00.25,3,4\r\n2023-11-16 18:00:01,5,6\r\n"))
    back = traces.open("auto", write(trace, tmp_path / "t.parquet"))
    assert back.generated_tokens.tolist() == [4, 6] and back.licence == "CC BY 4.0"
    assert (back.model == -1).all() and back.models == ()


def test_writing_where_nothing_can_be_written(put, tmp_path):
    trace = traces.open("auto", put("arrival_s,tenant\n1,a\n"))
    with pytest.raises(ConfigError, match="ends in '.txt'"):
        write(trace, tmp_path / "t.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write(trace, tmp_path / "file" / "t.csv")


# --- scaling, models, summaries, requests


@pytest.fixture
def small(put) -> Trace:
    rows = "0,a,big,,1,\n1,b,small,0.5,2,\n1,a,small,,3,\n4,c,big,2,4,\n"
    return traces.open("auto", put(CANONICAL + rows))


def test_scaling_to_a_rate_and_a_load(small):
    assert small.mean_rate_per_s == 0.75
    assert small.faster(2.0).arrival_s.tolist() == [0.0, 0.5, 0.5, 2.0]
    assert small.at_rate(7.5).mean_rate_per_s == pytest.approx(7.5)
    assert small.at_load(0.8, 50.0).mean_rate_per_s == pytest.approx(40.0)
    assert small.faster(2.0).relative_deadline_s.tolist() == small.relative_deadline_s.tolist()
    with pytest.raises(ConfigError, match="cannot be scaled"):
        small.select(slice(0, 1)).at_rate(1.0)
    with pytest.raises(ConfigError, match="speedup is 0.0"):
        small.faster(0.0)


def test_parts_of_a_trace(small):
    assert small.between(1.0, 4.0).arrival_s.tolist() == [0.0, 0.0]
    assert small.of_tenant("a").arrival_s.tolist() == [0.0, 1.0]
    with pytest.raises(ConfigError, match="no tenant 'z'"):
        small.of_tenant("z")
    merged = small.with_largest_tenants(1)
    assert [tenant for tenant, _ in names(merged)] == ["a", "other", "a", "other"]
    assert small.with_largest_tenants(3) is small


def test_choosing_models(small, put):
    assert small.with_models({"big": "bert-base", "small": "bert-small"}).models == (
        "bert-base",
        "bert-small",
    )
    assert {m for _, m in names(small.with_models({"big": "x", "small": "x"}))} == {"x"}
    with pytest.raises(ConfigError, match="no model for 'small'"):
        small.with_models({"big": "x"})
    with pytest.raises(ConfigError, match="no token counts"):
        small.with_buckets([(10, "x")])
    azure = traces.open(
        "auto", put(AZURE + "".join(f"2023-11-16 18:00:0{k},{t},1\n" for k, t in enumerate((5, 10, 11, 99))))
    )
    assert {m for _, m in names(azure.with_model("gpt2"))} == {"gpt2"}
    assert [m for _, m in names(azure.with_buckets([(10, "short"), (20, "long")]))] == [
        "short",
        "short",
        "long",
        "long",
    ]
    with pytest.raises(ConfigError, match="ascending"):
        azure.with_buckets([(10, "a"), (10, "b")])


def test_summary_by_hand(small):
    summary = describe(small)
    assert (summary.rows, summary.span_s, summary.mean_rate_per_s) == (4, 4.0, 0.75)
    gaps = np.array([1.0, 0.0, 3.0])
    assert summary.burstiness == pytest.approx(gaps.var() / gaps.mean() ** 2)
    assert [(t.tenant, t.rows, t.share) for t in summary.tenants] == [
        ("a", 2, 0.5),
        ("b", 1, 0.25),
        ("c", 1, 0.25),
    ]
    by_name = {column.column: column for column in summary.columns}
    assert by_name["priority"].p50 == 2.5 and by_name["relative_deadline_s"].known == 2
    assert by_name["duration_s"].known == 0 and math.isnan(by_name["duration_s"].mean)
    assert math.isnan(describe(small.select(slice(0, 2))).burstiness)


def test_burstiness_of_poisson_is_one(tmp_path):
    times = np.cumsum(np.random.default_rng(0).exponential(1.0, 50_000))
    trace = Trace(
        "canonical", "memory", times, ("a",), np.zeros(50_000, np.int32), (), np.full(50_000, -1, np.int32)
    )
    assert describe(trace).burstiness == pytest.approx(1.0, abs=0.05)


def test_rows_become_requests_with_their_own_deadlines(small):
    promised = {("a", "small"): Agreement("a", "small", Slo(0.9))}
    table = replay(
        small, agreements=promised, deadline=IsolatedFactor(3.0), iso_best_s={"big": 0.1, "small": 0.01}
    )
    assert [(table.agreements[p].tenant, table.agreements[p].model) for p in table.pair] == names(small)
    np.testing.assert_allclose(table.relative_deadline_s, [0.3, 0.5, 0.03, 2.0])
    assert table.priority.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert table.agreements[table.pair[2]].slo == Slo(0.9) and table.agreements[table.pair[0]].slo is None
    assert len(replay(small, 1.0)) == 1 and len(replay(small, 1.5)) == 3
    with pytest.raises(ConfigError, match="4 rows name no model"):
        replay(dataclasses.replace(small, model=np.full(4, -1, np.int32)))


def test_arrival_times_feed_the_replay_process(put):
    path = put(AZURE + "2023-11-16 18:00:00,3,4\r\n2023-11-16 18:00:04,5,6\r\n")
    times = traces.read_arrivals("azure-llm", path)
    assert Replay(times, speedup=8.0).times(np.random.default_rng(), 9.0).tolist() == [0.0, 0.5]


def test_every_registered_format_is_complete():
    for name in traces.TRACES:
        made = traces.TRACES.load(name)
        assert made.name == name and made.headers and made.what
