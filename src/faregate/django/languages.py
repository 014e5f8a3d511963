"""Match paths that begin with a language: with `i18n_patterns`, `/de/reports` is below `/reports`."""

from django.urls import LocalePrefixPattern, get_resolver, get_urlconf
from django.utils.translation import get_language, get_language_from_path

from faregate.checkout.path_rules import PathRules, list_paths


class LocalePathRules(PathRules):
    """Path rules that also read a path without its language, where the URLconf has `i18n_patterns`."""

    def list_other_paths(self, path: str, root: str) -> tuple[str, ...]:
        """List the path without its language."""
        below = path.removeprefix(root)
        first, _, rest = below[1:].partition("/")
        # Django matches the language that is active, which may be none of LANGUAGES.
        is_language = first == get_language() or get_language_from_path(below) is not None
        return list_paths(f"/{rest}", root) if is_language and _has_language_patterns() else ()


def _has_language_patterns() -> bool:
    # Not remembered: the module of the URLs may be the one that is being imported.
    try:
        patterns = get_resolver(get_urlconf()).url_patterns
    except Exception:  # Django raises it again for a request
        return False
    return any(isinstance(pattern.pattern, LocalePrefixPattern) for pattern in patterns)
