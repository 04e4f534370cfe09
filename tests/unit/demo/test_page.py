"""The page is three files that load nothing from elsewhere."""

from __future__ import annotations

import re

import pytest

from distributary.demo.page import PAGE_FILES, PAGE_FOLDER


@pytest.mark.parametrize("name", PAGE_FILES)
def test_page_files_exist_and_use_no_other_site(name: str) -> None:
    text = (PAGE_FOLDER / name).read_text(encoding="utf-8")
    text = text.replace("http://www.w3.org/2000/svg", "")  # a name, which nobody fetches
    assert not re.search(r"https?://|\beval\(|new Function|@import|innerHTML", text)


def test_page_allows_only_its_own_files() -> None:
    html = (PAGE_FOLDER / "index.html").read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in html
    assert set(re.findall(r'(?:src|href)="([\w.]+)"', html)) == set(PAGE_FILES) - {"index.html"}
    assert not re.search(r"<script>|<style|\son\w+=|\sstyle=", html)
