"""The formats of keys and tokens that issuers made recognizable: one row each.

A row follows the issuer's documentation or a maintained list. A new format is one more line. ``length`` is a minimum
number of characters after the prefix, so longer keys of the future are found too. Two options prevent false matches:

- ``alone``: there must not be a letter or digit before the prefix, for prefixes that words may end with;
- ``mixed``: the key must contain a digit, for prefixes that hyphenated words may follow.

The sources of most rows:

- GITHUB: https://docs.github.com/en/code-security/reference/secret-security/supported-secret-scanning-patterns
- GITLEAKS: https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml
- TRUFFLEHOG: https://github.com/trufflesecurity/trufflehog/tree/main/pkg/detectors
"""

from __future__ import annotations

from attrs import field, frozen

HEX = "A-Fa-f0-9"
UPPER = "A-Z0-9"
ALNUM = "A-Za-z0-9"
WORD = "A-Za-z0-9_"
URL = "A-Za-z0-9_-"
BASE64 = "A-Za-z0-9+/="
DOTTED = "A-Za-z0-9_.-"
ANY = "A-Za-z0-9_.+/=~-"

GITHUB, GITLEAKS, TRUFFLEHOG = "GITHUB", "GITLEAKS", "TRUFFLEHOG"


@frozen
class SecretFormat:
    """The format of one issuer's keys."""

    issuer: str
    prefixes: str
    """Prefixes, separated by spaces."""
    alphabet: str
    """Characters after the prefix, as the inside of a character class."""
    length: int
    """Minimum number of these characters."""
    source: str
    """Source of the format: one of the lists above, or a page of the issuer."""
    alone: bool = field(default=False, kw_only=True)
    mixed: bool = field(default=False, kw_only=True)
    exact: bool = field(default=False, kw_only=True)
    """Whether ``length`` is also the maximum."""


FORMATS: tuple[SecretFormat, ...] = (
    # ---- language models
    SecretFormat("Anthropic, OpenAI and others", "sk-", URL, 20, GITHUB, alone=True, mixed=True),
    SecretFormat("OpenAI", "sk-proj- sk-svcacct- sk-admin- sk-service-", URL, 20, GITHUB),
    SecretFormat("Anthropic", "sk-ant-", URL, 20, GITHUB),
    SecretFormat("OpenRouter", "sk-or-v1-", ALNUM, 32, GITHUB),
    SecretFormat("Langfuse", "sk-lf- pk-lf-", URL, 32, "https://langfuse.com/faq/all/where-are-langfuse-api-keys"),
    SecretFormat("Google, Gemini", "AIza", URL, 35, GITHUB),
    SecretFormat("Groq", "gsk_", ALNUM, 40, GITHUB),
    SecretFormat("Hugging Face", "hf_ api_org_", ALNUM, 30, GITHUB),
    SecretFormat("Replicate", "r8_", URL, 30, GITHUB, alone=True),
    SecretFormat("Perplexity", "pplx-", ALNUM, 32, GITHUB),
    SecretFormat("xAI", "xai-", WORD, 40, GITHUB),
    SecretFormat("Cerebras", "csk-", ALNUM, 32, "https://inference-docs.cerebras.ai/quickstart", alone=True),
    SecretFormat("Fireworks", "fw_", ALNUM, 20, GITHUB, alone=True, mixed=True),
    SecretFormat("Together", "tgp_v1_", URL, 32, "https://docs.together.ai/docs/api-keys-authentication"),
    SecretFormat("NVIDIA", "nvapi-", URL, 40, GITHUB),
    SecretFormat("ElevenLabs", "sk_", HEX, 48, GITHUB, alone=True),
    SecretFormat("LangSmith", "lsv2_pt_ lsv2_sk_", WORD, 32, GITHUB),
    SecretFormat("Pinecone", "pcsk_", WORD, 40, GITHUB),
    SecretFormat("Tavily", "tvly-", URL, 20, "https://docs.tavily.com/documentation/api-reference/introduction"),
    SecretFormat("Jina", "jina_", URL, 40, "https://jina.ai/api-dashboard"),
    SecretFormat("Voyage", "pa-", URL, 40, GITHUB, alone=True, mixed=True),
    SecretFormat("LlamaCloud", "llx-", ALNUM, 40, "https://docs.cloud.llamaindex.ai/api_key"),
    SecretFormat("Firecrawl", "fc-", HEX, 32, "https://docs.firecrawl.dev/introduction", alone=True),
    SecretFormat("Nomic", "nk-", URL, 40, "https://docs.nomic.ai", alone=True, mixed=True),
    SecretFormat("Anyscale", "esecret_ aph0_", URL, 24, "https://docs.anyscale.com"),
    SecretFormat(
        "Weights & Biases", "wandb_v1_", WORD, 40, "https://docs.wandb.ai/platform/app/settings-page/user-settings"
    ),
    SecretFormat("Cursor", "crsr_", HEX, 40, "https://cursor.com/docs/api"),
    SecretFormat("Sourcegraph", "sgp_", WORD, 40, GITLEAKS),
    SecretFormat("Sourcegraph", "slk_", HEX, 64, TRUFFLEHOG),
    SecretFormat(
        "Modal", "ak- as-", ALNUM, 22, "https://modal.com/docs/reference/modal.config", alone=True, mixed=True
    ),
    SecretFormat("Apify", "apify_api_", URL, 30, TRUFFLEHOG),
    SecretFormat("Salad", "salad_cloud_", WORD, 20, TRUFFLEHOG),
    # ---- clouds
    SecretFormat("AWS, ids of keys", "AKIA ASIA ABIA ACCA A3T", UPPER, 16, GITLEAKS, alone=True, exact=True),
    SecretFormat("AWS, session tokens", "IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz", ANY, 60, TRUFFLEHOG),
    SecretFormat("AWS, Bedrock", "ABSK", BASE64, 100, GITLEAKS),
    SecretFormat("AWS, Bedrock", "bedrock-api-key-", BASE64, 20, GITLEAKS),
    SecretFormat("AWS, Marketplace", "amzn.mws.", "a-f0-9-", 36, GITHUB),
    SecretFormat("Google, OAuth tokens", "ya29.", ANY, 20, GITHUB),
    SecretFormat("Google, OAuth secrets", "GOCSPX-", URL, 24, GITHUB),
    SecretFormat("Google, refresh tokens", "1//0", URL, 40, GITHUB, alone=True),
    SecretFormat("Azure, newer keys", "JQQJ99", BASE64, 40, "https://github.com/microsoft/security-utilities"),
    SecretFormat("Alibaba", "LTAI", ALNUM, 16, GITHUB, alone=True),
    SecretFormat("Tencent", "AKID", ALNUM, 32, GITHUB, alone=True),
    SecretFormat("Yandex", "AQVN", URL, 35, GITLEAKS, alone=True),
    SecretFormat("Yandex", "YCA", URL, 35, GITLEAKS, alone=True, mixed=True),
    SecretFormat("Yandex", "t1.9", ANY, 60, GITLEAKS, alone=True),
    SecretFormat("Yandex", "y0_", URL, 50, GITHUB, alone=True),
    SecretFormat("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", HEX, 64, GITHUB),
    SecretFormat("Heroku", "HRKU-", URL, 30, GITHUB),
    SecretFormat("Cloudflare", "cfut_ cfat_ cfk_", ALNUM, 40, TRUFFLEHOG),
    SecretFormat("Cloudflare, origin CA", "v1.0-", "a-f0-9-", 140, GITLEAKS),
    SecretFormat("Fly", "fm1r_ fm1a_ fm2_", BASE64, 60, GITLEAKS),
    SecretFormat("Fly", "fo1_", URL, 40, GITLEAKS),
    SecretFormat("Netlify", "nfp_ nfc_ nfo_ nfb_ nfu_", ALNUM, 30, GITHUB),
    SecretFormat("Vercel", "vcp_ vci_ vca_ vcr_ vck_", ALNUM, 24, "https://vercel.com/docs/rest-api", alone=True),
    SecretFormat("Vercel", "vercel_blob_rw_", WORD, 30, "https://vercel.com/docs/vercel-blob"),
    SecretFormat("Render", "rnd_", ALNUM, 24, "https://render.com/docs/api", alone=True, mixed=True),
    SecretFormat("Scalingo", "tk-us-", URL, 48, GITLEAKS),
    SecretFormat("Scaleway", "SCW", UPPER, 17, GITHUB, alone=True, exact=True),
    SecretFormat("Supabase", "sbp_ sb_secret_", URL, 20, GITHUB),
    SecretFormat("Neon", "napi_", ALNUM, 40, "https://neon.com/docs/manage/api-keys"),
    SecretFormat("PlanetScale", "pscale_tkn_ pscale_pw_ pscale_oauth_", DOTTED, 32, GITHUB),
    SecretFormat("ClickHouse", "4b1d", ALNUM, 38, GITLEAKS, alone=True, exact=True),
    SecretFormat("Databricks", "dapi", HEX, 32, GITHUB, alone=True),
    SecretFormat("MongoDB Atlas", "mdb_sa_sk_", URL, 30, GITHUB),
    SecretFormat("Prefect", "pnu_ pnb_", ALNUM, 36, GITHUB),
    SecretFormat("Pulumi", "pul-", HEX, 40, GITHUB),
    SecretFormat("Terraform, Vault", "hvs. hvb. hvr.", URL, 20, GITHUB),
    SecretFormat("Vault, older", "s. b. r.", ALNUM, 24, GITHUB, alone=True, mixed=True, exact=True),
    SecretFormat("Doppler", "dp.pt. dp.ct. dp.st. dp.sa. dp.scim. dp.audit.", DOTTED, 36, GITHUB),
    SecretFormat("Infisical", "st. pt.", DOTTED, 48, "https://infisical.com/docs", alone=True, mixed=True),
    SecretFormat("1Password", "ops_eyJ", BASE64, 60, GITLEAKS),
    SecretFormat("1Password, secret keys", "A3-", "A-Z0-9-", 32, GITLEAKS, alone=True),
    SecretFormat("OpenShift", "sha256~", URL, 40, GITLEAKS),
    SecretFormat("Tailscale", "tskey-", URL, 20, GITHUB),
    SecretFormat("Defined Networking", "dnkey-", URL, 60, GITLEAKS),
    SecretFormat("Rootly", "rootly_", HEX, 64, TRUFFLEHOG),
    SecretFormat("Endor Labs", "endr+", URL, 16, TRUFFLEHOG),
    # ---- forges and registries
    SecretFormat("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", WORD, 30, GITHUB),
    SecretFormat("GitHub", "github_pat_", WORD, 22, GITHUB),
    SecretFormat(
        "GitLab",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glwt- glsoat- glffct- gloas- glsat- glst-",
        DOTTED,
        20,
        "https://docs.gitlab.com/security/tokens/#token-prefixes",
    ),
    SecretFormat("GitLab, runners", "GR1348941", URL, 20, GITLEAKS),
    SecretFormat("Bitbucket, Atlassian, Trello", "ATBB", ANY, 24, GITHUB),
    SecretFormat("Atlassian", "ATATT3 ATCTT3", ANY, 40, GITHUB),
    SecretFormat("Trello", "ATTA", ALNUM, 60, GITHUB, alone=True),
    SecretFormat("npm", "npm_", ALNUM, 30, GITHUB),
    SecretFormat("PyPI", "pypi-", URL, 50, GITHUB),
    SecretFormat("RubyGems", "rubygems_", HEX, 40, GITHUB),
    SecretFormat("crates.io", "cio", ALNUM, 32, GITHUB, alone=True, mixed=True, exact=True),
    SecretFormat("NuGet", "oy2", "a-z0-9", 43, GITHUB, alone=True, exact=True),
    SecretFormat("Clojars", "CLOJARS_", ALNUM, 60, GITHUB),
    SecretFormat("Hex", "hex_", ALNUM, 32, GITHUB, alone=True, mixed=True),
    SecretFormat("Docker", "dckr_pat_ dckr_oat_", URL, 20, GITHUB),
    SecretFormat("Artifactory", "AKCp", ALNUM, 60, GITLEAKS),
    SecretFormat("Artifactory", "cmVmd", ALNUM, 55, GITLEAKS, alone=True),
    SecretFormat("Buildkite", "bkua_ bkaj_ bkct_ bkpt_", ALNUM, 32, GITHUB),
    SecretFormat("CircleCI", "CCIPAT_ CCIPRJ_", WORD, 40, GITHUB),
    SecretFormat("SonarQube", "squ_ sqp_ sqa_", HEX, 40, GITLEAKS),
    SecretFormat("Snyk", "snyk_uat. snyk_sat.", DOTTED, 30, GITHUB),
    SecretFormat("Octopus Deploy", "API-", UPPER, 25, GITLEAKS, alone=True),
    SecretFormat("Percy", "web_ app_ auto_ ss_", HEX, 32, TRUFFLEHOG, alone=True),
    SecretFormat("Infracost", "ico-", ALNUM, 32, GITLEAKS, alone=True),
    SecretFormat("ReadMe", "rdme_", ALNUM, 60, GITHUB),
    # ---- messaging
    SecretFormat(
        "Slack", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xoxc- xoxd- xwfp-", ANY, 12, GITHUB, mixed=True
    ),
    SecretFormat("Slack", "xoxe.xoxp- xoxe.xoxb-", URL, 20, GITHUB),
    SecretFormat("Twilio", "SK", "a-f0-9", 32, GITHUB, alone=True, exact=True),
    SecretFormat("SendGrid", "SG.", DOTTED, 40, GITHUB, alone=True),
    SecretFormat("Mailgun", "key-", "a-f0-9", 32, GITHUB, alone=True),
    SecretFormat("Mandrill", "md-", URL, 22, GITHUB, alone=True, mixed=True, exact=True),
    SecretFormat("Brevo", "xkeysib- xsmtpsib-", URL, 40, GITHUB),
    SecretFormat("Resend", "re_", WORD, 28, "https://resend.com/docs", alone=True, mixed=True),
    SecretFormat("MessageBird, Bird", "live_ test_", ALNUM, 25, GITLEAKS, alone=True, mixed=True),
    SecretFormat("Firebase, messaging", ":APA91b", URL, 80, GITHUB),
    # ---- money
    SecretFormat(
        "Stripe and others", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ pk_live_ pk_test_", URL, 16, GITHUB
    ),
    SecretFormat("Stripe, webhooks; Svix", "whsec_", BASE64, 20, GITHUB),
    SecretFormat("Square", "EAAA", URL, 50, GITHUB, alone=True),
    SecretFormat("Square", "sq0atp- sq0csp- sq0idp- sq0iur-", URL, 20, GITHUB),
    SecretFormat("Braintree, PayPal", "access_token$production$ access_token$sandbox$", "a-z0-9$", 30, GITHUB),
    SecretFormat("PayPal", "A21AA", URL, 70, GITHUB, alone=True),
    SecretFormat("Shopify", "shpat_ shpca_ shppa_ shpss_ shptka_ shpua_", HEX, 32, GITHUB),
    SecretFormat("Razorpay", "rzp_live_ rzp_test_", ALNUM, 14, GITHUB),
    SecretFormat("Flutterwave", "FLWSECK- FLWSECK_TEST- FLWSECK_LIVE-", URL, 12, GITHUB),
    SecretFormat("Duffel", "duffel_live_ duffel_test_", URL, 30, GITHUB),
    SecretFormat("EasyPost", "EZAK EZTK", ALNUM, 54, GITHUB),
    SecretFormat("Shippo", "shippo_live_ shippo_test_", HEX, 40, GITHUB),
    SecretFormat("Plaid", "access-production- access-sandbox- access-development-", "a-f0-9-", 36, GITHUB),
    SecretFormat("Ramp", "ramp_sec_ ramp_id_", ALNUM, 40, TRUFFLEHOG),
    SecretFormat("Polar", "polar_oat_ polar_pat_", URL, 20, GITHUB),
    SecretFormat(
        "Wallets: BIP 32", "xprv", ALNUM, 100, "https://github.com/bitcoin/bips/blob/master/bip-0032.mediawiki"
    ),
    SecretFormat("Nostr", "nsec1", "a-z0-9", 58, "https://github.com/nostr-protocol/nips/blob/master/19.md"),
    # ---- work and content
    SecretFormat("Notion", "ntn_", ALNUM, 40, GITHUB),
    SecretFormat("Notion, older", "secret_", ALNUM, 43, GITHUB),
    SecretFormat("Linear", "lin_api_ lin_oauth_ lin_wh_", ALNUM, 32, GITHUB),
    SecretFormat("Figma", "figd_ figp_ figo_ figu_ figur_ figuh_", ANY, 30, GITHUB),
    SecretFormat("Dropbox", "sl.", URL, 100, GITHUB, alone=True),
    SecretFormat("Postman", "PMAK-", "a-f0-9-", 50, GITHUB),
    SecretFormat("HubSpot", "pat-na1- pat-eu1- pat-na2- pat-ap1-", "A-Fa-f0-9-", 32, GITHUB),
    SecretFormat("Contentful", "CFPAT-", URL, 40, GITHUB),
    SecretFormat("Typeform", "tfp_", ANY, 40, GITHUB),
    SecretFormat("ClickUp", "pk_", "0-9_A-Z", 34, TRUFFLEHOG, alone=True, mixed=True),
    SecretFormat("Frame.io", "fio-u-", URL, 60, GITHUB),
    SecretFormat("Mapbox", "sk.eyJ tk.eyJ", DOTTED, 60, GITHUB),
    SecretFormat("Adafruit", "aio_", ALNUM, 28, GITHUB, alone=True),
    SecretFormat("Adobe", "p8e-", ALNUM, 32, GITHUB),
    SecretFormat("Salesforce", "5AEP861", ANY, 80, TRUFFLEHOG),
    SecretFormat("Facebook", "EAA", ALNUM, 80, GITLEAKS, alone=True),
    SecretFormat("LaunchDarkly", "api- sdk- mob-", "a-f0-9-", 36, GITHUB, alone=True, mixed=True, exact=True),
    SecretFormat("Voiceflow", "VF.DM. VF.WS. VF.", "A-Za-z0-9.", 40, TRUFFLEHOG, alone=True),
    SecretFormat("Harness", "pat. sat.", DOTTED, 66, GITLEAKS, alone=True),
    SecretFormat("Settlemint", "sm_aat_ sm_pat_ sm_sat_", ALNUM, 16, GITLEAKS),
    SecretFormat("Flexport, SonarCloud", "shltm_ sqco_", URL, 40, TRUFFLEHOG),
    SecretFormat("FullStory", "na1. eu1.", BASE64, 60, TRUFFLEHOG, alone=True, mixed=True),
    SecretFormat("Zoho", "1000.", "a-f0-9.", 65, TRUFFLEHOG, alone=True),
    SecretFormat("42", "s-s4t2ud- s-s4t2af-", "a-f0-9", 64, GITLEAKS),
    # ---- monitoring
    SecretFormat("New Relic", "NRAK- NRII- NRIQ- NRJS- NRBR- NRRA-", URL, 19, GITHUB),
    SecretFormat("Grafana", "glc_", BASE64, 32, GITHUB),
    SecretFormat("Grafana", "glsa_", WORD, 32, GITHUB),
    SecretFormat("Grafana, older", "eyJrIjoi", BASE64, 60, GITHUB),
    SecretFormat("Sentry", "sntrys_", ANY, 40, GITHUB),
    SecretFormat("Sentry", "sntryu_ sntrya_ sntryi_", HEX, 40, GITHUB),
    SecretFormat("PostHog", "phx_ phs_", WORD, 32, GITHUB),
    SecretFormat("Dynatrace", "dt0c01. dt0s01. dt0s16.", DOTTED, 60, GITHUB),
    SecretFormat("Deno", "ddp_ ddw_", ALNUM, 36, TRUFFLEHOG),
    SecretFormat("Ubidots", "BBFF- BBUS-", ALNUM, 30, TRUFFLEHOG),
    # ---- files
    SecretFormat("age", "AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1", UPPER, 50, "https://github.com/FiloSottile/age"),
)
"""All formats. Each becomes a ``Shape`` of the kind ``api_key``."""
