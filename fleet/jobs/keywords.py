"""Seed 001's keywords, and what else each may mean."""

from __future__ import annotations

import re

from fleet.jobs.words import Keyword, Sense

_SEP = r"[\s_/-]*"
_FIELD = (
    r"gpus?|cuda|pytorch|tensorflow|keras|jax|onnx|tensorrt|vllm|neural|deep learning|machine learning|ml|ai|llms?|transformers?|"
    r"bert|resnet|yolo\w*|u-?net|datasets?|epochs?|checkpoints?|hyperparameters?|embeddings?|classifiers?|fine-?tun\w*"
)
_VISION = (
    rf"{_FIELD}|images?|cameras?|videos?|vision|pixels?|frames?|opencv|segment\w*|detect\w*|ocr|lidar|x-?rays?|satellite"
    r"|cctv|pipelines?|workloads?|track(?:s|ers?|ing)?"
)
_SERVING = (
    rf"{_FIELD}|models?|networks?|serv(?:e|es|ing|ers?)|latency|throughput|batch(?:es|ed)?|tokens?|endpoints?|triton|whisper|"
    r"quantiz\w*|weights|accelerat\w*"
)
_LEARNING = (
    rf"{_FIELD}|networks?|loss|distributed|gradients?|lora|diffusion|weights|data ?loaders?|deepspeed|fsdp|mixed precision"
)
_LANGUAGE = (
    rf"{_FIELD}|texts?|languages?|tokens?|corpus|corpora|spacy|nltk|sentiment|translation|summari[sz]\w*|entit(?:y|ies)|chat\w*|"
    r"documents?|speech|hugging ?face|notes|transcripts?|tickets|reviews|e?mails?|clinical"
)

_RESUME = "a résumé"
_WRITTEN = r"(?:pdf|docx?|odt|rtf|tex|html?|txt|png)\b"
_CV = (
    Sense("cross-validation", before=r"(?:\d+|k|five|ten|nested|stratified)[\s-]*(?:fold)?[\s-]+", about=r"cross[\s-]?validat"),
    Sense(_RESUME, after=rf"\.{_WRITTEN}|\s+(?:as|in)\s+(?:an?\s+)?(?:latex|word|{_WRITTEN})", firm=True),
    Sense(
        _RESUME,
        before=r"\b(?:my|your|his|her|academic|europass|latex|(?:candidate|applicant|author)s?'?s?"
        r"|(?:attach|upload|send|submit|update|email)(?:s|e?d|ing)?(?: us| me)?(?: an?| the| your| my)?)\s+",
        after=r"\s+(?:pages?|templates?|builders?|parsers?|writing|websites?|formats?|uploads?|screening|of"
        r"\s+(?:the|an?|each|every|our|my|his|her|dr|prof|mr|ms|mrs))\b",
        about=r"r[ée]sum[ée]|curriculum vitae|cover letter|applicants?\b|candidates?\b|recruit|hiring|hire[sd]?\b|vacanc"
        r"|interview|job (?:application|seeker|offer)|employ(?:er|ment|ee)|human resources|career|linkedin",
    ),
    Sense("an address", before=r"://\S*|@\S*|\w\.", firm=True),
    Sense("a coefficient of variation", after=r"\s*(?:%|(?:of|=|<|>|≤|≥|below|under|was|is)\s*\d)", firm=True),
    Sense(
        "a coefficient of variation",
        about=r"coefficients? of variation|standard deviation|repeatability|intra-assay|inter-assay",
    ),
    Sense("cyclic voltammetry", about=r"voltammet|voltammogram|electrochem|electrodes?|potentiostat"),
    Sense("a joint of constant velocity", after=r"[\s-]+(?:joint|boot|axle|shaft|half-?shaft)s?\b", firm=True),
    Sense("a ship or an aircraft", after=r"-\d", firm=True),
    Sense("horsepower", about=r"horsepower|diesel|petrol|gearbox|torque"),
    Sense("the flow coefficient of a valve", about=r"valves?\b|flow coefficient"),
)
_CVS = (Sense("several of something, as résumés are", after=r"(?!\w)", firm=True),)
_NLP = (
    Sense("neuro-linguistic programming", about=r"neuro-?\s?linguistic|hypno|coach|therap|self-help|rapport|life skills"),
    Sense("nonlinear programming", about=r"non-?\s?linear|ipopt|knitro|snopt|casadi|minlp|karush|kkt|optimal control|solvers?"),
    Sense("no light perception", about=r"light perception|visual acuity|ophthalm"),
    Sense("an address", before=r"://\S*|@\S*", firm=True),
)
_INFERENCE = (
    Sense(
        "a conclusion",
        before=r"\b(?:adverse|judicial|legal|factual|permissible|unfair|dr(?:aws?|awn|awing|ew) (?:an?|the|any|no))\s+",
        after=r"\s+(?:of|as to|about)\s+(?:law|fact|guilt|negligence|intent|malice|fault|discrimination)\b"
        r"|\s+that\s+(?:he|she|they|someone|nobody|the\s+(?:accused|defendant|suspect|witness|author|speaker))\b"
        r"|\s+from\s+(?:(?:the|a|his|her|their)\s+)?(?:\w+\s+)?(?:evidence|silence|facts?|testimony|passage|story)\b",
        firm=True,
    ),
    Sense(
        "a conclusion of law",
        around=r"courts?|jury|juries|judges?|plaintiff|defendant|statut|attorney|counsel|litigation|tribunal|testimony|judge?ment|"
        r"contract law|case law|witness",
    ),
    Sense("what a compiler does", before=r"\b(?:type|return type|lifetime|effect|kind)[\s-]+", firm=True),
    Sense("what a reader of data does", before=r"\b(?:schema|dtype|column type|delimiter|encoding)[\s-]+", firm=True),
    Sense("what a compiler does", around=r"typescript|haskell|hindley|mypy"),
    Sense(
        "logic",
        before=r"\b(?:logical|deductive|inductive|abductive|forward-chaining|rules? of|laws? of)\s+",
        firm=True,
    ),
    Sense("logic", around=r"syllogis|philosoph|modus ponens|epistem|prolog"),
    Sense(
        "statistics",
        before=r"\b(?:statistical|causal|frequentist|bayesian|inductive|phylogenetic|ecological|population)\s+",
        firm=True,
    ),
    Sense("statistics", around=r"p-values?|confidence intervals?|hypothesis test|econometr|survey sample"),
    Sense("reading between the lines", around=r"pupils?|reading comprehension|classrooms?|worksheets?"),
    Sense("an address", before=r"://\S*|@\S*", firm=True),
)
_GPU = (
    Sense(
        "a ground power unit",
        after=r"\s+(?:to|into|from|of)\s+(?:the\s+|an?\s+)?(?:aircraft|plane|airliner)\b",
        about=r"ground power|tarmac|jet bridge|engine start|apron|hangar|ground handling",
    ),
    Sense("the Soviet police", about=r"soviet|ogpu|nkvd|cheka|secret police|bolshevik|stalin|gulag"),
    Sense("that of a browser", about=r"css\b|browsers?|webgl|scrolling"),
)
_CUDA = (
    Sense("a car", about=r"plymouth|barracuda|hemi\b|mopar|muscle cars?|dodge|vintage cars?|convertible"),
    Sense("a fish", about=r"fishing|anglers?|lures?|reef"),
)

KEYWORDS = (
    Keyword(
        "machine learning",
        rf"machine{_SEP}learning",
        _FIELD,
        (
            Sense(
                "learning to use a machine",
                before=r"\b(?:sewing|washing|slot|vending|coffee|espresso|milling|drilling|cnc|knitting|embroidery|rowing|fax|voting|"
                r"franking|time|simple)[\s-]+",
                firm=True,
            ),
        ),
    ),
    Keyword(
        "deep learning",
        rf"deep{_SEP}learning",
        rf"{_FIELD}|models?|networks?|predict\w*|detect\w*|classif\w*|recogni\w*|images?|videos?",
        (
            Sense(
                "a way of teaching",
                around=r"pedagog|classrooms?|surface learning|pupils?|bloom's|didactic",
            ),
        ),
    ),
    Keyword(
        "neural network",
        rf"neural{_SEP}net(?:work)?s?",
        rf"{_FIELD}|artificial|convolution\w*|recurrent|layers?|predict\w*|classif\w*|images?|segment\w*|detect\w*|train(?:s|ed|ing)?",
        (
            Sense(
                "nerves",
                before=r"\b(?:biological|cortical|spinal|neuronal|living|brain's|hippocampal|enteric|mammalian|the brain's)\s+",
                around=r"zebrafish|cortex|synap|in vivo|neuroscien|mice|mouse|rats?\b|anatom|organoids?|axons?|spinal",
            ),
        ),
    ),
    Keyword("pytorch", r"py-?torch"),
    Keyword("tensorflow", r"tensor-?flow"),
    Keyword(
        "computer vision",
        rf"computer{_SEP}vision",
        _VISION,
        (
            Sense("a complaint of the eyes", after=r"\s+(?:syndrome|fatigue|glasses|strain)\b", firm=True),
            Sense("a complaint of the eyes", around=r"optometr|optician|eye strain|eyestrain|dry eyes?|spectacles"),
        ),
    ),
    Keyword("cv", r"(?:open-?)?cv2?", _VISION, _CV),
    Keyword("cv", r"cvs", senses=_CVS),
    Keyword(
        "object detection",
        rf"object{_SEP}detections?",
        _VISION,
        (
            Sense(
                "objects of another kind",
                before=r"\b(?:duplicate|orphan(?:ed)?|dead|stale|unused|unreferenced|cyclic|null|deleted|dirty|database|foreign|metal"
                r"|lost|java|s3)[\s-]+",
                around=r"garbage collect|metal detector",
            ),
        ),
    ),
    Keyword(
        "image classification",
        rf"image{_SEP}classifications?",
        _VISION,
        (
            Sense(
                "images of disks",
                before=r"\b(?:docker|container|disk|vm|virtual|boot|iso|oci|golden|machine|firmware|backup)[\s-]+",
                firm=True,
            ),
            Sense(
                "who may see an image",
                after=r"\s*(?::|=|as|into)?\s*(?:confidential|secret|public|internal|restricted)\b",
                firm=True,
            ),
        ),
    ),
    Keyword("nlp", r"nlp", _LANGUAGE, _NLP),
    Keyword(
        "model training",
        rf"models?'?{_SEP}(?:re-?|pre-?)?training",
        rf"{_LEARNING}|mnist|cifar\w*|images?|videos?",
        (
            Sense(
                "training of people",
                before=r"\b(?:fashion|role|business|operating|data|runway|catwalk|process|delivery|governance|maturity|competency"
                r"|financial|excel|photo|glamour|hand|plus-size)[\s-]+",
                after=r"\s+(?:sessions?|courses?|workshops?|days?|agency|agencies|academy|school|seminars?|camps?"
                r"|for (?:\w+ )?(?:staff|analysts|employees|managers|people))\b",
            ),
            Sense("training of people", around=r"catwalk|fashion|runway|model(?:ling)? agency|photo ?shoot"),
        ),
    ),
    Keyword("inference", r"inferenc(?:es?|ing)", _SERVING, _INFERENCE),
    Keyword(
        "gpu",
        r"gpus?",
        _FIELD.replace("gpus?|", "") + r"|nvidia|train(?:ing)?|inference|models?|vram|tensors?|kernels?|kubernetes",
        _GPU,
    ),
    Keyword("cuda", r"cuda", _FIELD.replace("cuda|", "") + r"|nvidia|kernels?|toolkit|nvcc|cudnn|drivers?|compute", _CUDA),
)
"""What tells of a machine-learning workload (seed 001)."""

# -- sizes -------------------------------------------------------------------------------------------------------------

_NEUTRAL = re.compile(
    r"of|the|an?|or|and|more|plus|to|up|scale|sized?|class|range|trainable|learnable|active|activated|total|dense|sparse|free|model|"
    r"language|vision|foundation|neural|multimodal|\d+|\w*illions?|billions?"
)
_PARAMETERS = re.compile(r"parameters?|params?|weights?|models?|llms?|transformers?|networks?|nets?|connections?|moe")
_NOTHING_FOLLOWS = re.compile(r"in|at|by|per|for|with|on|from|which|that|is|are|as|we|it|so|but|using|across")
_MODEL = re.compile(
    r"(?<![^\W\d_])(?:models?|llms?|networks?|transformers?|parameters?|params?|checkpoints?|weights)(?![^\W\d_])"
)
_MONEY = re.compile(r"[$€£¥]\s*[\d.,]*\s*(?:multi-?)?$|\b(?:usd|eur|gbp)\s*[\d.,]*\s*$")


def _no_parameters(before: str, after: str, sentence: str) -> str:
    """Why a billion is not of a model's parameters, or nothing."""
    if _MONEY.search(before):
        return "it is an amount of money"
    if re.match(r"-?[\s-]*(?:language |foundation )?model\b", after):
        return ""
    for word in re.findall(r"[^\W_]+", after)[:6]:
        if _PARAMETERS.fullmatch(word):
            return ""
        if _NOTHING_FOLLOWS.fullmatch(word):
            break
        if not _NEUTRAL.fullmatch(word):
            return f"it counts {word}"
    return "" if _MODEL.search(sentence) else "nothing says that it counts parameters"


LARGE = (
    Keyword(
        "large model",
        r"large[\s_-]+(?:(?:language|vision|multi-?modal|foundation|transformer|generative|pre-?trained|neural|deep|diffusion|speech|"
        r"reasoning|ai|ml|open)[\s_-]+){0,2}models?",
        rf"{_LEARNING}|serv(?:e|es|ing|ers?)|tokens?|parameters?|prompts?|train(?:s|ed|ing)?",
        (
            Sense(
                "a model to look at",
                after=r"[\s-]+(?:railways?|railroads?|trains?|aircraft|planes?|ships?|boats?|cars?|kits?|agency|agencies|village|houses?|"
                r"homes?|organisms?)\b",
                firm=True,
            ),
            Sense("a model to look at", around=r"plastic\b|wooden|cardboard|clay\b|architects?\b|railway"),
        ),
    ),
    Keyword("billion", r"billions?", astray=_no_parameters),
)
"""What tells of a model that wants several GPUs."""

TRAINING = (
    Keyword(
        "training",
        r"(?:re-?|pre-?)?trainings?",
        rf"{_LEARNING}|models?|batch(?:es)?",
        (
            Sense(
                "training of people",
                before=r"\b(?:staff|employees?'?|teachers?'?|dog|puppy|potty|first[\s-]aid)[\s-]+",
                after=r"\s+(?:of|for)\s+(?:(?:the|our|new|all|its|their)\s+)*(?:staff|employees?|teachers?|personnel|nurses?|pilots?"
                r"|people|colleagues|volunteers?|managers?|analysts?|recruits?)\b",
                firm=True,
            ),
            Sense(
                "training of people",
                before=r"\b(?:safety|awareness|onboarding|strength|military|drivers?'?|pilots?'?|compliance|fire|leadership|vocational"
                r"|customers?'?|(?:end[\s-])?users?'?)[\s-]+",
                after=r"\s+(?:courses?|sessions?|workshops?|seminars?|manuals?|slides|certificates?|budget|camps?|days?"
                r"|cent(?:er|re)s?|calendar|rooms?|shoes)\b",
                around=r"staff|trainees?|classrooms?|human resources|gym\b",
            ),
            Sense("what comes after it", before=r"\bpost[\s-]+", firm=True),
            Sense(
                "what came before",
                before=r"\b(?:finished|completed)\s+",
                after=r"\s+(?:is|was|has been) (?:done|finished|over|complete)\b",
            ),
        ),
    ),
)
"""What tells of training rather than of serving."""
