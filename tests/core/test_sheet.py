"""Tables as spreadsheets write them: one meaning, whatever the marks; two meanings are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from eunomia.core.errors import TraceError
from eunomia.core.sheet import read_sheet

MEANT = [{"name": "conv, 1", "s": 0.0015, "bytes": 1234567.0}, {"name": "fc", "s": 2.0, "bytes": 8.0}]
WRITTEN = {
    "plain": 'name,s,bytes\n"conv, 1",0.0015,1234567\nfc,2,8\n',
    "Windows": 'name,s,bytes\r\n"conv, 1",1.5e-3,1234567\r\n\r\nfc,2,8\r\n',
    "thousands": 'name,s,bytes\n"conv, 1",0.0015,"1,234,567"\nfc,2.0,8\n',
    "quoted decimal commas": 'name,s,bytes\n"conv, 1","0,0015",1234567\nfc,"2,0",8\n',
    "German": "name;s;bytes\nconv, 1;0,0015;1.234.567\nfc;2;8\n",
    "French": "name;s;bytes\nconv, 1;0,0015;1 234 567\nfc;2,0;8,0\n",
    "French, narrow": "name;s;bytes\nconv, 1;0,0015;1\u202f234\u202f567\nfc;2,0;8,0\n",
    "Swiss": "name;s;bytes\nconv, 1;0.0015;1'234'567\nfc;2.0;8\n",
    "semicolons alone": "name;s;bytes\nconv, 1;0.0015;1234567\nfc;2;8\n",
    "tabs": "name\ts\tbytes\nconv, 1\t0.0015\t1234567\nfc\t2\t8\n",
    "said": "sep=;\r\nname;s;bytes\r\nconv, 1;0,0015;1234567\r\nfc;2;8\r\n",
    "marks at the end": "name;s;bytes;;\nconv, 1;0,0015;1234567;;\n;;;;\nfc;2;8;;\n",
    "scientific": "name;s;bytes\nconv, 1;1,5E-03;1,234567E+06\nfc;2;8\n",
}


@pytest.mark.parametrize("how", sorted(WRITTEN))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_one_meaning(how: str, encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes(WRITTEN[how].encode(encoding))
    sheet = read_sheet(file, ("name",))
    assert sheet.header == ["name", "s", "bytes"]
    found = [
        {"name": row["name"], "s": float(row["s"]), "bytes": float(row["bytes"])} for _, row in sheet.rows
    ]
    assert found == MEANT


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("sep=;\nname;s\n\na;1\n")
    assert read_sheet(file).rows == [(4, {"name": "a", "s": "1"})]


def test_two_meanings_are_refused_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text('name,s\na,"1,234"\n')
    with pytest.raises(TraceError, match="line 2, column 's': '1,234' can be read as 1234 and as 1.234"):
        read_sheet(file, ("name",))


def test_other_text_stays(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("name;s;t\nv1.2;inf;fast, I say\n;0,5;\n")
    rows = [row for _, row in read_sheet(file, ("name",)).rows]
    assert rows == [{"name": "v1.2", "s": "inf", "t": "fast, I say"}, {"name": "", "s": "0.5", "t": ""}]


def test_what_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes(b"name;s\nM\xfcller;1\n")
    with pytest.raises(TraceError, match="is not UTF-8 text; save it as UTF-8"):
        read_sheet(file)
    with pytest.raises(TraceError, match="cannot be read"):
        read_sheet(tmp_path / "none.csv")
